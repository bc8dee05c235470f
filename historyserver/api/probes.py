"""Probes: of this server itself, and of Ray's that a finished session cannot answer."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.errors import ApiError, ErrorCode
from historyserver.api.routing import ApiParts, server_routes

routes = server_routes("probes")


@routes.get("/healthz")
@routes.get("/livez")
def live(_parts: ApiParts) -> flask.Response:
    """The process answers."""
    return _text("ok")


@routes.get("/readyz")
@routes.get("/readz")
def ready(parts: ApiParts) -> flask.Response:
    """There is a list of sessions to show: the store has answered, once at least."""
    reason = parts.why_not_ready()
    if reason:
        raise ApiError(ErrorCode.STORAGE_UNAVAILABLE, reason, status=503)
    return _text("ok")


@routes.get("/metrics")
def metrics(parts: ApiParts) -> flask.Response:
    """Give the server's metrics in Prometheus' text format."""
    body, content_type = parts.metrics_page()
    return answer(body, content_type=content_type, headers={"Cache-Control": "no-store"})


@routes.get("/api/authentication_mode")
def authentication_mode(_parts: ApiParts) -> flask.Response:
    """Ray's own token dialog stays shut: who may read is this server's matter."""
    return answer({"authentication_mode": "disabled"})


@routes.post("/api/authenticate")
def authenticate(_parts: ApiParts) -> flask.Response:
    """As Ray with authentication disabled."""
    raise ApiError(
        ErrorCode.FORBIDDEN, "Unauthorized: Token authentication is not enabled", status=401
    )


@routes.get("/api/gcs_healthz")
@routes.get("/api/healthz")
@routes.get("/api/local_raylet_healthz")
def ray_health(_parts: ApiParts) -> flask.Response:
    """A stored session has no running GCS or raylet, and must not look as if it had."""
    raise ApiError(
        ErrorCode.NOT_KEPT,
        "this is the history server; a stored session has no running Ray. "
        "Its own probes are /healthz and /readyz",
        status=503,
    )


def _text(text: str) -> flask.Response:
    return answer(
        text.encode(),
        content_type="text/plain; charset=utf-8",
        headers={"Cache-Control": "no-store"},
    )
