"""Questions to a compiled session: rows in, plain data out. No web, no storage."""
