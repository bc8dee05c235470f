"""Errors in one JSON shape, and the codes that programs can tell them by.

`{"result": false, "msg": TEXT, "data": {"result": null, "error": {"code": CODE, "detail": TEXT}}}`
is what Ray's own clients understand (`result`, `msg`) plus our code.

The status is never 404: Ray's dashboard with `--proxy-server-url` takes a 404 as "ask the local,
empty cluster instead" and would show the wrong data with status 200 (measured on Ray 2.55).
"""

from __future__ import annotations

from enum import Enum
from typing import Any


class ErrorCode(Enum):
    """Why a request was refused. The values are part of the API."""

    NO_SESSION_CHOSEN = "no_session_chosen"
    BAD_SELECTION = "bad_selection"
    SESSION_NOT_FOUND = "session_not_found"
    SESSION_PREPARING = "session_preparing"
    SESSION_BROKEN = "session_broken"
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    """The session holds no such task, actor, job, node or file."""
    NOT_KEPT = "not_kept"
    """This was answered by the running cluster only."""
    READ_ONLY = "read_only"
    FORBIDDEN = "forbidden"
    STORAGE_UNAVAILABLE = "storage_unavailable"
    INTERNAL = "internal"


class ApiError(Exception):
    """A request cannot be answered; the message is for the reader of the answer."""

    def __init__(self, code: ErrorCode, message: str, *, status: int = 400) -> None:
        if status == 404:
            raise ValueError("404 sends Ray's proxy to the wrong cluster; use 400")
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


class BadRequestError(ApiError):
    """The query cannot be understood."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.BAD_REQUEST, message)


class UnknownEntityError(ApiError):
    """The session holds no such task, actor, job, node or file (400, see above)."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NOT_FOUND, message)


class NotKeptError(ApiError):
    """Only the running cluster could answer this."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NOT_KEPT, message)


class ReadOnlyError(ApiError):
    """The request would change something."""

    def __init__(self, message: str = "use GET or HEAD", *, status: int = 405) -> None:
        super().__init__(
            ErrorCode.READ_ONLY, f"stored sessions are read-only: {message}", status=status
        )


def error_body(code: ErrorCode, message: str) -> dict[str, Any]:
    """The one shape of every JSON error."""
    return {
        "result": False,
        "msg": message,
        "data": {"result": None, "error": {"code": code.value, "detail": message}},
    }
