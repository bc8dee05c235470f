"""Makes a session's compiled file, one at once, in limited time, and tells how it went."""

from __future__ import annotations

import logging
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from historyserver.compiled.cache import CompiledCache
from historyserver.compiled.opener import BrokenFileError, CompiledSession
from historyserver.compiling.apart import compile_apart
from historyserver.compiling.processes import CompileTimeoutError, WorkerDiedError
from historyserver.reading.frames import SourceChangedError
from historyserver.reading.source import SessionSource
from historyserver.sessions.errors import BrokenReason, SessionBrokenError
from historyserver.sessions.failures import Failures
from historyserver.sessions.watching import CompileOutcome, SessionWatch
from storage.backend import Backend, StorageError

log = logging.getLogger(__name__)

_COMPILES = 1
"""Compiles at once, over all processes that share a cache folder: each uses all processors."""


@dataclass(frozen=True, kw_only=True)
class CompileLimits:
    """What compiling and its results may take."""

    cache_bytes: int
    """Of compiled files in the local cache."""
    workers: int
    """Processes of one compile."""
    timeout_s: float
    """How long one compile may take."""


class SessionMaker:
    """Compiles sessions of a backend. Safe to use from any thread."""

    def __init__(
        self, backend: Backend, *, limits: CompileLimits, watch: SessionWatch, failures: Failures
    ) -> None:
        self._backend = backend
        self._limits = limits
        self._watch = watch
        self._failures = failures

    def make(
        self, cache: CompiledCache, source: SessionSource, key: str, unfinished: Path
    ) -> CompiledSession:
        """Compile a session into the cache; `unfinished` is where its file is written.

        Raises `SessionBrokenError`, `StorageError`, or `OSError` when the cache fails.
        """
        self._failures.check(source.fingerprint)
        try:
            with cache.slot(_COMPILES):
                self._compile(source, unfinished)
            compiled = cache.add(key, unfinished)
        except (StorageError, OSError):
            raise
        except Exception as error:
            broken = _broken(source.session.session, error)
            fields = {"session": source.session.session, "reason": broken.reason.value}
            log.exception("a session could not be compiled", extra=fields)
            self._failures.add(source.fingerprint, broken)
            raise broken from error
        self._failures.forget(source.fingerprint)
        return compiled

    def _compile(self, source: SessionSource, unfinished: Path) -> None:
        """Compile, and tell how it went."""
        limits, began_s = self._limits, time.monotonic()
        outcome, meta = CompileOutcome.BROKEN, None
        try:
            meta = compile_apart(
                self._backend,
                source,
                unfinished,
                workers=limits.workers,
                timeout_s=limits.timeout_s,
            )
            outcome = CompileOutcome.MADE
        except SourceChangedError:
            outcome = CompileOutcome.SOURCE_CHANGED
            raise
        except StorageError:
            outcome = CompileOutcome.STORAGE_FAILED
            raise
        finally:
            seconds = time.monotonic() - began_s
            self._watch.compiled(outcome, seconds, meta)
            fields = {
                "session": source.session.session,
                "state": source.state,
                "state_reason": source.reason,
                "outcome": outcome.value,
                "seconds": round(seconds, 2),
            }
            log.info("compiled", extra=fields)


def _broken(session: str, error: Exception) -> SessionBrokenError:
    """Why a compile failed, for the reader."""
    if isinstance(error, WorkerDiedError):
        return SessionBrokenError(
            BrokenReason.COMPILE_DIED, f"preparing the session {session} failed: {error}"
        )
    if isinstance(error, CompileTimeoutError):
        return SessionBrokenError(
            BrokenReason.COMPILE_TIMED_OUT,
            f"preparing the session {session} was given up: {error} (see --compile-timeout)",
        )
    if isinstance(error, BrokenFileError):
        return SessionBrokenError(
            BrokenReason.BAD_FILE, f"the compiled session cannot be opened: {error}"
        )
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return SessionBrokenError(BrokenReason.NO_SPACE, "the session cache is full")
    return SessionBrokenError(
        BrokenReason.COMPILE_FAILED,
        f"preparing the session {session} failed ({type(error).__name__}); the log has the reason",
    )
