"""Probes: of this server itself, and of Ray's that a finished session cannot answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import flask

from historyserver.api.answers import answer
from historyserver.api.errors import ApiError, ErrorCode

blueprint = flask.Blueprint("probes", __name__)

READY = "rayhistory.ready"
"""`app.extensions` key: a callable that returns why the server is not ready, or ''."""
METRICS = "rayhistory.metrics"
"""`app.extensions` key: a callable that returns the metrics page and its content type."""


@blueprint.get("/healthz")
@blueprint.get("/livez")
def live() -> flask.Response:
    """The process answers."""
    return _text("ok")


@blueprint.get("/readyz")
@blueprint.get("/readz")
def ready() -> flask.Response:
    """Sessions can be listed: the store answers."""
    check = cast("Callable[[], str]", flask.current_app.extensions[READY])
    reason = check()
    if reason:
        raise ApiError(ErrorCode.STORAGE_UNAVAILABLE, reason, status=503)
    return _text("ok")


@blueprint.get("/metrics")
def metrics() -> flask.Response:
    """Give the server's metrics in Prometheus' text format."""
    page = cast("Callable[[], tuple[bytes, str]]", flask.current_app.extensions[METRICS])
    body, content_type = page()
    return answer(body, content_type=content_type, headers={"Cache-Control": "no-store"})


@blueprint.get("/api/authentication_mode")
def authentication_mode() -> flask.Response:
    """Ray's own token dialog stays shut: who may read is this server's matter."""
    return answer({"authentication_mode": "disabled"})


@blueprint.post("/api/authenticate")
def authenticate() -> flask.Response:
    """As Ray with authentication disabled."""
    raise ApiError(
        ErrorCode.FORBIDDEN, "Unauthorized: Token authentication is not enabled", status=401
    )


@blueprint.get("/api/gcs_healthz")
@blueprint.get("/api/healthz")
@blueprint.get("/api/local_raylet_healthz")
def ray_health() -> flask.Response:
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
