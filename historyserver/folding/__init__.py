"""Pure: events in any order, twice or partial become task attempts, actors, jobs, nodes and workers."""
