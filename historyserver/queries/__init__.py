"""Questions to a compiled session: rows in, plain data out, in the shape of Ray's answers.

`api` asks them. Imports `compiled`, the records of `folding`, and of storage only the names of
Ray's answers that collectors keep (`storage.endpoints`); no web, no object is read here.
"""
