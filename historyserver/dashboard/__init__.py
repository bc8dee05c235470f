"""Ray's own built dashboard: its files served unchanged, and fetched from a ray package.

`pages` serves the files, `cli` fetches them. Imports nothing of sessions or the API.
"""
