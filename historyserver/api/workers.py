"""Worker and runtime environment routes of Ray's State API."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.routing import request_arguments, session_routes
from historyserver.queries import runtime_envs, workers
from historyserver.queries.options import list_options
from historyserver.sessions import OpenSession

routes = session_routes("workers")


@routes.get("/api/v0/workers")
def list_workers(session: OpenSession) -> flask.Response:
    """Worker processes, filtered."""
    options = list_options(request_arguments())
    return answer(workers.list_workers(session.compiled, options))


@routes.get("/api/v0/runtime_envs")
def list_runtime_envs(session: OpenSession) -> flask.Response:
    """Runtime environments and how their set-up went, filtered."""
    options = list_options(request_arguments())
    return answer(runtime_envs.list_runtime_envs(session.compiled, options))
