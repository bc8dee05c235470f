"""Why a session cannot be opened."""

from __future__ import annotations

from enum import StrEnum


class BrokenReason(StrEnum):
    """Why a session cannot be opened although it is stored; the name in logs and metrics."""

    COMPILE_DIED = "compile_died"
    """The compiling process ended, most likely for want of memory."""
    COMPILE_TIMED_OUT = "compile_timed_out"
    """It took longer than `--compile-timeout`."""
    COMPILE_FAILED = "compile_failed"
    """It met what it could not handle; the log has the reason."""
    BAD_FILE = "bad_file"
    """What was compiled cannot be opened."""
    KEEPS_CHANGING = "keeps_changing"
    """Live segments are replaced faster than they can be read."""
    NO_SPACE = "no_space"
    """The cache folder cannot be written."""


class SessionError(Exception):
    """A session cannot be opened. The message is for the reader."""


class SessionNotFoundError(SessionError):
    """Nothing of the session is stored."""


class SessionBrokenError(SessionError):
    """The session is stored but cannot be opened."""

    def __init__(self, reason: BrokenReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
