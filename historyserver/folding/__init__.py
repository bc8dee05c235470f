"""Pure: events in any order, twice or partial become attempts, actors, jobs, nodes and workers.

`folder` takes blocks of JSON lines; `task_rows` makes rows of the attempts, `entities` records of
what is few, `closing` ends what the session's end left open, `lineage` makes the progress tree.
`compiling` folds with it; its plain records and enumerations (`records`, `session_state`,
`skips`) are what `catalogue`, `compiled`, `pages`, `queries`, `reading` and `sessions` speak in.
Imports nothing of the server, of storage, web or database.
"""
