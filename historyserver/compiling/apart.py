"""Compiles in a process of its own, so that the caller's memory stays small."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from historyserver.compiled.meta import Meta
from historyserver.compiling.crew import ask, started
from historyserver.reading.source import SessionSource
from storage.backend import Backend


def compile_apart(backend: Backend, source: SessionSource, path: Path, *, workers: int) -> Meta:
    """Compile a session as `compile_session` does, in another process; raises the same errors."""
    with started("historyserver.compiling.child") as connection:
        return cast("Meta", ask(connection, "compile", (backend, source, path, workers)))
