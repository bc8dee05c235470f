"""What the live dashboard offers and a stored session cannot: a clear error, never a 404.

The routes here are the last resort of the API; more exact ones come first by Flask's rules.
"""

from __future__ import annotations

import flask

from historyserver.api.errors import NotKeptError, ReadOnlyError
from historyserver.api.routing import ApiParts, server_routes

routes = server_routes("not_kept")

_PROFILING = "profiling needs the running process; it is not kept for stored sessions"


@routes.get("/task/traceback")
@routes.get("/task/cpu_profile")
@routes.get("/worker/traceback")
@routes.get("/worker/cpu_profile")
@routes.get("/worker/gpu_profile")
@routes.get("/memory_profile")
def profiling(_parts: ApiParts) -> flask.Response:
    """Stack traces and profiles of live processes."""
    raise NotKeptError(_PROFILING)


@routes.get("/api/actors/kill")
def kill_actor(_parts: ApiParts) -> flask.Response:
    """Ray kills by GET; here nothing can be killed, and nothing may be."""
    raise ReadOnlyError("no actor can be killed", status=400)


@routes.get("/api/jobs/<submission_id>/logs/tail")
def tail_job_logs(_parts: ApiParts, submission_id: str) -> flask.Response:
    """`ray job logs --follow` (a web socket)."""
    raise NotKeptError(
        f"following a log needs the running cluster; the stored log is at "
        f"/api/jobs/{submission_id}/logs"
    )


@routes.get("/api/<path:rest>")
@routes.get("/nodes/<path:rest>")
@routes.get("/logical/<path:rest>")
def unknown(_parts: ApiParts, rest: str) -> flask.Response:
    """Anything else under the API's roots."""
    del rest  # the message names the whole path
    raise NotKeptError(f"{flask.request.path[:200]} is not kept for stored sessions")
