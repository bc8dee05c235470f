"""The web app put together and run: what happens around every request, failures, gunicorn.

`cli` calls it. It joins access, the API and the pages, and has no rule of its own about sessions;
nothing of the server imports it.
"""
