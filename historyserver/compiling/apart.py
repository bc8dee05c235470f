"""Compiles in a process of its own, so that the caller's memory stays small."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import cast

from historyserver.compiled.meta import Meta
from historyserver.compiling.processes import CHILD, ask, started
from historyserver.compiling.units import SMALL_BYTES, plain_bytes
from historyserver.reading.source import SessionSource
from storage.backend import Backend


def compile_apart(
    backend: Backend,
    source: SessionSource,
    path: Path,
    *,
    workers: int,
    timeout_s: float | None = None,
) -> Meta:
    """Compile a session as `compile_session` does, in another process; raises the same errors.

    Also raises `CompileTimeoutError`; then, as when a process dies, what was begun beside `path`
    stays behind.
    """
    with started(CHILD) as connection:
        if plain_bytes(source.event_files) < SMALL_BYTES:
            workers = 1
        task = pickle.dumps((backend, source, path), pickle.HIGHEST_PROTOCOL)
        return cast("Meta", ask(connection, "compile", (workers, task), timeout_s=timeout_s))
