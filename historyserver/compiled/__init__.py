"""The compiled session: one immutable SQLite file. Its schema, its writer and its opener.

`compiling` writes it, `queries` and `api` read it, `sessions` keeps and opens it, `pages` show its
facts (`meta`). Imports the records of `folding` only, and no storage: files are on local disk.
"""
