"""From any exception to an answer: JSON in one shape for programs, a plain page for people.

No stack trace ever leaves the server; the log has it under the request's id.
"""

from __future__ import annotations

import logging

import flask
from werkzeug.exceptions import HTTPException
from werkzeug.routing import WebsocketMismatch

from historyserver.api.answers import refuse
from historyserver.api.errors import ApiError, ErrorCode, ReadOnlyError
from historyserver.http.links import to_root
from historyserver.http.selection import SelectionError
from historyserver.queries.options import QueryError
from historyserver.reading.frames import SourceChangedError
from historyserver.sessions import (
    BrokenReason,
    SessionBrokenError,
    SessionError,
    SessionNotFoundError,
)
from historyserver.sessions.failures import FAILED_REST_S
from historyserver.sessions.opening import OpeningError, OpeningReason
from storage.backend import StorageError, ThrottledError, UnavailableError

log = logging.getLogger(__name__)

RETRY_AFTER_S = 3
_OPENING = {
    OpeningReason.NONE_CHOSEN: (ErrorCode.NO_SESSION_CHOSEN, 400),
    OpeningReason.NOT_FOUND: (ErrorCode.SESSION_NOT_FOUND, 400),
    OpeningReason.PREPARING: (ErrorCode.SESSION_PREPARING, 503),
}
_PASSING = {
    BrokenReason.KEEPS_CHANGING: (ErrorCode.SESSION_PREPARING, RETRY_AFTER_S),
    BrokenReason.NO_SPACE: (ErrorCode.SESSION_BROKEN, int(FAILED_REST_S)),
}
"""What a later request may not meet any more, and when to come back: no fault of the session."""
_KNOWN: tuple[tuple[type[Exception], ErrorCode, int], ...] = (
    (SelectionError, ErrorCode.BAD_SELECTION, 400),
    (QueryError, ErrorCode.BAD_REQUEST, 400),
    (SourceChangedError, ErrorCode.SESSION_PREPARING, 503),
    (SessionNotFoundError, ErrorCode.SESSION_NOT_FOUND, 400),
    (SessionError, ErrorCode.SESSION_BROKEN, 500),
    (ThrottledError, ErrorCode.STORAGE_UNAVAILABLE, 503),
    (UnavailableError, ErrorCode.STORAGE_UNAVAILABLE, 503),
    (StorageError, ErrorCode.STORAGE_UNAVAILABLE, 500),
)
"""The first that fits."""
_API_ROOTS = frozenset({
    "api", "clusters", "cluster_id", "enter_cluster", "events", "logical", "memory_profile",
    "nodes", "task", "timezone", "usage_stats_enabled", "worker",
})  # fmt: skip
"""The first segments of the paths that Ray's dashboard and KubeRay's server answer as an API."""
_TITLES = {
    ErrorCode.SESSION_PREPARING: "Preparing this session",
    ErrorCode.SESSION_NOT_FOUND: "No such session",
    ErrorCode.BAD_SELECTION: "No such session",
    ErrorCode.SESSION_BROKEN: "This session cannot be read",
    ErrorCode.STORAGE_UNAVAILABLE: "The storage does not answer",
    ErrorCode.FORBIDDEN: "You may not read this",
}


def answer_to(error: Exception) -> flask.Response:
    """Make the response for an exception that left a route."""
    known = _known(error)
    if known is None:
        log.error(
            "request failed",
            exc_info=error,
            extra={"request_id": flask.g.get("request_id", "")},
        )
        known = ErrorCode.INTERNAL, "the server failed to answer; its log has the reason", 500
    code, message, status = known
    flask.g.error_code = code.value
    if wants_page(flask.request):
        response = _page(code, message, status)
    else:
        response = refuse(code, message, status=status)
    if retry_s := _retry_after_s(error, code):
        response.headers["Retry-After"] = str(retry_s)
    if status == 405:
        response.headers["Allow"] = "GET, HEAD, OPTIONS"
    return response


def _retry_after_s(error: Exception, code: ErrorCode) -> int:
    """When to ask again; 0 when that does not help."""
    if isinstance(error, SessionBrokenError) and error.reason in _PASSING:
        return _PASSING[error.reason][1]
    return RETRY_AFTER_S if code is ErrorCode.SESSION_PREPARING else 0


def is_api(path: str) -> bool:
    """Whether programs ask for this path: then no answer may be 404 (see `api.errors`)."""
    return path.lstrip("/").partition("/")[0] in _API_ROOTS


def wants_page(request: flask.Request) -> bool:
    """Whether a person's browser navigates, rather than a program or the UI's code asking."""
    if is_api(request.path):
        return False
    return request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "")


def _known(error: Exception) -> tuple[ErrorCode, str, int] | None:
    if isinstance(error, ApiError):
        return error.code, error.message, error.status
    if isinstance(error, OpeningError):
        code, status = _OPENING[error.reason]
        return code, error.message, status
    if isinstance(error, HTTPException):
        return _of_http(error)
    if isinstance(error, SessionBrokenError) and error.reason in _PASSING:
        return _PASSING[error.reason][0], str(error), 503
    for kind, code, status in _KNOWN:
        if isinstance(error, kind):
            return code, str(error), status
    return None


def _of_http(error: HTTPException) -> tuple[ErrorCode, str, int]:
    status = error.code or 500
    if status == 405:
        refused = ReadOnlyError()
        return refused.code, refused.message, refused.status
    if isinstance(error, WebsocketMismatch):
        return ErrorCode.NOT_KEPT, "following a log needs the running cluster", 400
    text = error.description or error.name
    if status == 404:
        path = flask.request.path
        if is_api(path):  # a 404 would send Ray's proxy to the wrong cluster
            return ErrorCode.NOT_KEPT, f"{path[:200]} is not kept for stored sessions", 400
        return ErrorCode.NOT_FOUND, "there is no such page", 404
    return ErrorCode.BAD_REQUEST if status < 500 else ErrorCode.INTERNAL, text, status


def _page(code: ErrorCode, message: str, status: int) -> flask.Response:
    preparing = code is ErrorCode.SESSION_PREPARING
    html = flask.render_template(
        "message.html",
        title=_TITLES.get(code, "This did not work"),
        text=message[:1].upper() + message[1:] + ("" if message.endswith((".", "!", "?")) else "."),
        refresh_s=RETRY_AFTER_S if preparing else 0,
        request_id=flask.g.get("request_id", "") if code is ErrorCode.INTERNAL else "",
        root=to_root(flask.request.environ),
    )
    response = flask.Response(html, status=status, content_type="text/html; charset=utf-8")
    response.headers["Cache-Control"] = "no-store"
    return response
