"""Worker and runtime environment routes of Ray's State API."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.api.arguments import request_arguments
from historyserver.queries import runtime_envs, workers
from historyserver.queries.options import list_options

blueprint = flask.Blueprint("workers", __name__)


@blueprint.get("/api/v0/workers")
def list_workers() -> flask.Response:
    """Worker processes, filtered."""
    options = list_options(request_arguments())
    return answer(workers.list_workers(current_session().compiled, options))


@blueprint.get("/api/v0/runtime_envs")
def list_runtime_envs() -> flask.Response:
    """Runtime environments and how their set-up went, filtered."""
    options = list_options(request_arguments())
    return answer(runtime_envs.list_runtime_envs(current_session().compiled, options))
