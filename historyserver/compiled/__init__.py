"""The compiled session: one immutable SQLite file. Its schema, its writer and its opener.

`compiling` writes it, `queries` read it, `sessions` keeps and opens it. Imports the records of
`folding` only.
"""
