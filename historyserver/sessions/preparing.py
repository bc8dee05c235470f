"""Gets a session's compiled file: from the local cache, from storage, or by compiling.

Other processes of this machine wait for the file of whoever makes it; other replicas fetch what
the first one stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from historyserver.compiled.cache import CompiledCache, cache_key
from historyserver.compiled.opener import CompiledSession
from historyserver.compiled.schema import SCHEMA_VERSION
from historyserver.folding.session_state import SessionState
from historyserver.reading.frames import SourceChangedError
from historyserver.reading.locate import locate
from historyserver.reading.source import SessionSource
from historyserver.sessions.errors import (
    BrokenReason,
    SessionBrokenError,
    SessionNotFoundError,
)
from historyserver.sessions.failures import FAILED_REST_S, KEPT, Failures
from historyserver.sessions.making import CompileLimits, SessionMaker
from historyserver.sessions.session import OpenSession
from historyserver.sessions.sharing import SharedFiles
from historyserver.sessions.watching import FetchOutcome, SessionWatch
from storage.backend import Backend, NotFoundError
from storage.layout import SessionRef

RUNNING_RECHECK_S = 10.0
"""A running session is located again at most this often."""

UNSETTLED_RECHECK_S = 60.0
"""And one that is over, but may still get data."""

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Prepared:
    """A session, and how long it holds."""

    session: OpenSession
    recheck_s: float
    """After so long its source is to be looked at again; 0: it holds for ever."""


class Preparer(Protocol):
    """Prepares sessions, whatever that takes. One call at a time for each session."""

    def prepare(self, ref: SessionRef, known: CompiledSession | None) -> Prepared:
        """Prepare a session; `known` is kept when it still holds.

        Raises `SessionNotFoundError`, `SessionBrokenError`, or `StorageError` when storage
        fails.
        """
        ...

    def distrust(self, compiled: CompiledSession) -> bool:
        """Have the next `prepare` make this file anew; False when that was done lately."""
        ...

    def close(self) -> None:
        """Finish what runs in the background."""
        ...


class SessionPreparer:
    """The `Preparer` of the server. Safe to use from any thread."""

    def __init__(
        self,
        backend: Backend,
        cache_dir: Path,
        *,
        limits: CompileLimits,
        watch: SessionWatch,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare sessions of a backend.

        Args:
            backend: where they are; it must pickle, for the compiling process.
            cache_dir: a folder that processes of this machine may share.
            limits: what compiling may take.
            watch: counts.
            monotonic_s: the clock.

        """
        self._backend = backend
        self._cache_dir = cache_dir
        self._limits = limits
        self._maker = SessionMaker(
            backend, limits=limits, watch=watch, failures=Failures(monotonic_s)
        )
        self._monotonic_s = monotonic_s
        self._distrusted: dict[str, float] = {}
        self._shared = SharedFiles(backend, max_bytes=limits.cache_bytes, watch=watch)

    def prepare(self, ref: SessionRef, known: CompiledSession | None) -> Prepared:
        """See `Preparer`."""
        for attempt in range(_ATTEMPTS):
            try:
                source = locate(self._backend, ref)
                return self._prepared(ref, source, self._current(source, known))
            except SourceChangedError as error:  # before what it is a kind of
                if attempt == _ATTEMPTS - 1:
                    raise SessionBrokenError(
                        BrokenReason.KEEPS_CHANGING,
                        f"the session {ref.session} changes while it is read; try again",
                    ) from error
            except NotFoundError as error:
                raise SessionNotFoundError(f"no session {ref.session} is stored") from error
            except OSError as error:
                raise SessionBrokenError(
                    BrokenReason.NO_SPACE, f"the session cache cannot be used: {error.strerror}"
                ) from error
        raise AssertionError("unreachable")

    def distrust(self, compiled: CompiledSession) -> bool:
        """See `Preparer`."""
        now_s = self._monotonic_s()
        if now_s - self._distrusted.get(compiled.fingerprint, -FAILED_REST_S) < FAILED_REST_S:
            return False
        if len(self._distrusted) >= KEPT:
            self._distrusted.clear()
        self._distrusted[compiled.fingerprint] = now_s
        compiled.path.unlink(missing_ok=True)
        return True

    def close(self) -> None:
        """See `Preparer`."""
        self._shared.close()

    def _prepared(
        self, ref: SessionRef, source: SessionSource, compiled: CompiledSession
    ) -> Prepared:
        recheck_s = 0.0
        if source.state == SessionState.RUNNING:
            recheck_s = RUNNING_RECHECK_S
        elif not source.settled:
            recheck_s = UNSETTLED_RECHECK_S
        etag_base = f"{SCHEMA_VERSION}-{compiled.fingerprint}-{compiled.meta.state}"
        return Prepared(OpenSession(ref, compiled, self._backend, etag_base), recheck_s)

    def _current(self, source: SessionSource, known: CompiledSession | None) -> CompiledSession:
        if known is not None and known.fingerprint == source.fingerprint:
            return known
        ref = source.session
        owner = f"{ref.namespace}/{ref.cluster}/{ref.session}"
        key = cache_key(owner, SCHEMA_VERSION, source.fingerprint)
        # Made each time: a cleaner of temporary files may have removed the folder.
        cache = CompiledCache(self._cache_dir, max_bytes=self._limits.cache_bytes)
        with cache.making(key) as unfinished:
            found = cache.open(key)
            return found if found is not None else self._obtain(cache, source, key, unfinished)

    def _obtain(
        self, cache: CompiledCache, source: SessionSource, key: str, unfinished: Path
    ) -> CompiledSession:
        """Fetch or make the compiled file."""
        is_damaged = source.fingerprint in self._distrusted
        if not is_damaged:
            compiled, fetched = self._shared.fetch(cache, source, key, unfinished)
            if compiled is not None:
                return compiled
            is_damaged = fetched is not FetchOutcome.ABSENT
        unfinished.unlink(missing_ok=True)
        compiled = self._maker.make(cache, source, key, unfinished)
        if source.state != SessionState.RUNNING:
            self._shared.store(source, compiled, replace=is_damaged)
        return compiled
