"""Opens sessions: once, whoever asks, with a bounded wait; also ahead of the first reader.

`web` makes the opener, `pages` find sessions by it, `api` gets them opened, `cli` prepares one
ahead. Imports no web framework.
"""

from __future__ import annotations

from historyserver.sessions.errors import (
    BrokenReason,
    SessionBrokenError,
    SessionError,
    SessionNotFoundError,
)
from historyserver.sessions.making import CompileLimits
from historyserver.sessions.preparing import SessionPreparer
from historyserver.sessions.session import OpenSession
from historyserver.sessions.sessions import Sessions
from historyserver.sessions.watching import SessionWatch
from historyserver.settings import Settings
from storage.backend import Backend


def open_sessions(settings: Settings, backend: Backend, watch: SessionWatch) -> Sessions:
    """Make the opener of sessions as the settings want it."""
    limits = CompileLimits(
        cache_bytes=settings.cache_size_bytes,
        workers=settings.compile_workers,
        timeout_s=settings.compile_timeout_s,
    )
    preparer = SessionPreparer(backend, settings.cache_dir, limits=limits, watch=watch)
    return Sessions(preparer, watch=watch)


__all__ = [
    "BrokenReason",
    "CompileLimits",
    "OpenSession",
    "SessionBrokenError",
    "SessionError",
    "SessionNotFoundError",
    "SessionPreparer",
    "SessionWatch",
    "Sessions",
    "open_sessions",
]
