"""The session that the current request means."""

from __future__ import annotations

import flask

from historyserver.http.selection import HEADER, Selection, of_request


def selected() -> Selection | None:
    """The current request's selection, read once. Raises `SelectionError`."""
    if "selection" not in flask.g:
        flask.g.access_checked = True  # a bad selection is refused without any data
        request = flask.request
        flask.g.selection = None
        flask.g.selection = of_request(
            request.environ,
            headers={HEADER: request.headers.get(HEADER, "")},
            cookies=request.cookies,
        )
        flask.g.access_checked = False
    chosen: Selection | None = flask.g.selection
    return chosen
