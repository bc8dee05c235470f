"""Prepares one session ahead of its first reader: the command `historyserver compile`."""

from __future__ import annotations

from typing import Any

from historyserver.catalogue import Catalogue
from historyserver.http.selection import SelectionSource, parse
from historyserver.sessions import SessionNotFoundError, open_sessions
from historyserver.sessions.opening import OpeningError, SessionOpener
from historyserver.sessions.watching import Unwatched
from historyserver.settings import Settings
from storage.backend import Backend

PATIENCE_S = 24 * 3600.0


def precompile(settings: Settings, backend: Backend, place: str) -> dict[str, Any]:
    """Open a session as the server would, which compiles it and stores the result.

    Args:
        settings: the server's.
        backend: where sessions are stored.
        place: `namespace/kind/name/session`.

    Raises `SelectionError` when that names no session, `SessionError` when the session is not
    stored or cannot be opened, and `StorageError`.

    """
    sessions = open_sessions(settings, backend, Unwatched())
    opener = SessionOpener(
        catalogue=Catalogue(backend), sessions=sessions, patience_s=PATIENCE_S, max_waiting=1
    )
    namespace, kind, name, session = place.split("/")
    try:
        chosen = parse(namespace, kind, name, session, source=SelectionSource.PATH)
        meta = opener.open(chosen).compiled.meta
    except OpeningError as error:  # the patience is that of a batch job: it is not there
        raise SessionNotFoundError(error.message) from error
    finally:
        sessions.close()  # waits until the compiled file is stored
    return {
        "session": meta.session,
        "fingerprint": meta.fingerprint,
        "schema_version": meta.schema_version,
        "counts": meta.counts,
        "damage": meta.damage,
        "compile_duration_ms": meta.compile_duration_ms,
    }
