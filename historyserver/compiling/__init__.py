"""From a session in storage to its compiled file, in processes of their own.

`apart` is the entry: it compiles in bounded time and memory; `stored` fetches and stores the
files that replicas share. `sessions` calls it, and sees that each session is compiled once.
Imports `reading`, `folding` and `compiled`; knows no web.
"""
