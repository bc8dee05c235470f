"""The whole web app over one compiled session, for tests of state routes."""

from __future__ import annotations

from pathlib import Path

from historyserver.compiled.opener import CompiledSession
from historyserver.sessions import OpenSession
from storage.local import LocalBackend
from tests.historyserver.asking import Asker
from tests.historyserver.hand_made import REF, app_of


def asker_of(compiled: CompiledSession, folder: Path) -> Asker:
    """A client of the app that serves this session."""
    store = folder / "bucket"
    store.mkdir(exist_ok=True)
    backend = LocalBackend(store)
    opened = OpenSession(ref=REF, compiled=compiled, backend=backend, etag_base="test")
    return Asker(app_of(backend, opened))
