"""The HTTP API of Ray's dashboard, one module per area. Shapes only.

Every module has a `blueprint`; `BLUEPRINTS` names them all, and `historyserver.web.app` registers
them. A route that needs the chosen session calls `current_session()`, and returns what
`answers.answer` makes. This package imports queries and selection; it never builds object keys
and never folds events.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import flask

if TYPE_CHECKING:
    from historyserver.sessions import OpenSession

BLUEPRINTS = (
    "tasks",
    "actors",
    "jobs",
    "nodes",
    "placement_groups",
    "workers",
    "objects",
    "cluster",
    "logs",
    "events",
    "serve",
    "data",
    "train",
    "facts",
    "probes",
    "clusters",
    "absent",
)
"""The modules of this package with a blueprint."""

WITHOUT_SESSION = frozenset({"probes", "clusters", "absent"})
"""Those whose answers do not depend on a compiled session alone: no ETag, no memory of bodies."""

_OPEN = "rayhistory.open_session"


def register(app: flask.Flask, *, open_session: Callable[[], OpenSession]) -> None:
    """Put every blueprint into the app.

    Args:
        app: the web app.
        open_session: opens the session that the current request means; raises `ApiError`.

    """
    app.extensions[_OPEN] = open_session
    for name in BLUEPRINTS:
        module = importlib.import_module(f"{__name__}.{name}")
        app.register_blueprint(module.blueprint)


def current_session() -> OpenSession:
    """The session of the current request, opened once per request. Raises `ApiError`."""
    session = flask.g.get("open_session")
    if session is None:
        opener = cast("Callable[[], OpenSession]", flask.current_app.extensions[_OPEN])
        session = opener()
        flask.g.open_session = session
    return cast("OpenSession", session)
