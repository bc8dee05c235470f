"""The HTTP API of Ray's dashboard, one module per area. Shapes only.

Every module has `routes`, functions of the chosen session or of the server (see `routing`), and
returns what `answers.answer` makes; `areas` names them all, and `web.app` registers them. This
package imports queries, opened sessions, the list of sessions, and `reading` for the bytes of
logs; it never builds object keys and never folds events.
"""
