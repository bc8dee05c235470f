"""Opens sessions: once, whoever asks, with a bounded wait; also ahead of the first reader.

`web` and `pages` open sessions here, `api` gets them opened. Imports no web framework.
"""

from __future__ import annotations

from historyserver.sessions.sessions import (
    BrokenReason,
    OpenSession,
    SessionBrokenError,
    SessionError,
    SessionNotFoundError,
    Sessions,
    open_sessions,
)

__all__ = [
    "BrokenReason",
    "OpenSession",
    "SessionBrokenError",
    "SessionError",
    "SessionNotFoundError",
    "Sessions",
    "open_sessions",
]
