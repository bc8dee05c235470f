"""What the live dashboard offers and a stored session cannot: a clear error, never a 404.

The routes here are the last resort of the API; more exact ones come first by Flask's rules.
"""

from __future__ import annotations

import flask

from historyserver.api.errors import ApiError, ErrorCode, NotKeptError

blueprint = flask.Blueprint("absent", __name__)

_PROFILING = "profiling needs the running process; it is not kept for stored sessions"


@blueprint.get("/task/traceback")
@blueprint.get("/task/cpu_profile")
@blueprint.get("/worker/traceback")
@blueprint.get("/worker/cpu_profile")
@blueprint.get("/worker/gpu_profile")
@blueprint.get("/memory_profile")
def profiling() -> flask.Response:
    """Stack traces and profiles of live processes."""
    raise NotKeptError(_PROFILING)


@blueprint.get("/api/actors/kill")
def kill_actor() -> flask.Response:
    """Ray kills by GET; here nothing can be killed, and nothing may be."""
    raise ApiError(
        ErrorCode.READ_ONLY, "stored sessions are read-only: no actor can be killed", status=400
    )


@blueprint.get("/api/jobs/<submission_id>/logs/tail")
def tail_job_logs(submission_id: str) -> flask.Response:
    """`ray job logs --follow` (a web socket)."""
    raise NotKeptError(
        f"following a log needs the running cluster; the stored log is at "
        f"/api/jobs/{submission_id}/logs"
    )


@blueprint.get("/api/<path:rest>")
@blueprint.get("/nodes/<path:rest>")
@blueprint.get("/logical/<path:rest>")
def unknown(rest: str) -> flask.Response:
    """Anything else under the API's roots."""
    raise NotKeptError(f"{flask.request.path[:200]} is not kept for stored sessions")
