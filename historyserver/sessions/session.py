"""An open session."""

from __future__ import annotations

from dataclasses import dataclass

from historyserver.compiled.opener import CompiledSession
from storage.backend import Backend
from storage.layout import SessionRef


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that queries can run on."""

    ref: SessionRef
    compiled: CompiledSession
    backend: Backend
    etag_base: str
    """Changes whenever an answer can: schema and fingerprint."""
