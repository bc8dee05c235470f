"""The session that the current request means."""

from __future__ import annotations

import flask

from historyserver.http.selection import HEADER, Selection, of_request


def select(named: Selection | None) -> Selection | None:
    """Find what the current request means and keep it; done once, before the access policy.

    Args:
        named: what the address itself names, where its route shows one session; it wins.

    Raises `SelectionError`.

    """
    request = flask.request
    flask.g.selection = named or of_request(
        request.environ,
        headers={HEADER: request.headers.get(HEADER, "")},
        cookies=request.cookies,
    )
    return selected()


def selected() -> Selection | None:
    """What `select` found; the access policy was asked about the same."""
    found: Selection | None = flask.g.get("selection")
    return found
