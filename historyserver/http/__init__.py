"""What every part that answers HTTP shares: selections, links, the memory of ready answers.

`access`, `api`, `pages`, `dashboard`, `sessions` and `web` call it. It knows no compiled session
and imports nothing of the server.
"""
