"""Sessions known to storage: found by listing, searched, sorted and paged."""
