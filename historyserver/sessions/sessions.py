"""Opens sessions: from memory, the local cache, storage, or by compiling; each once for all.

One piece of work per session: threads of this process share it, other processes of this
machine wait for its file, other replicas fetch what the first one stored. A session that still
runs is looked at again after `RUNNING_RECHECK_S`; meanwhile readers get what is open.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from historyserver.compiled.cache import CompiledCache, cache_key
from historyserver.compiled.opener import BrokenFileError, CompiledSession
from historyserver.compiled.schema import SCHEMA_VERSION
from historyserver.compiling.apart import compile_apart
from historyserver.compiling.processes import WorkerDiedError
from historyserver.compiling.stored import Fetched, fetch, store
from historyserver.folding.session_state import SessionState
from historyserver.reading.frames import SourceChangedError
from historyserver.reading.locate import locate
from historyserver.reading.source import SessionSource
from historyserver.settings import Settings
from storage.backend import Backend, NotFoundError, StorageError
from storage.layout import SessionRef, compiled_key

log = logging.getLogger(__name__)

RUNNING_RECHECK_S = 10.0
"""A running session is located again at most this often."""

UNSETTLED_RECHECK_S = 60.0
"""And one that is over, but may still get data."""

MAX_BYTES = 20 * 1024**3
"""Of the local cache, unless set."""

FAILED_REST_S = 60.0
"""A session that failed twice the same way is not tried again for so long, since each attempt
may take all processors and memory from the others."""

_ATTEMPTS = 3
_FAILURES_KEPT = 1000


class BrokenReason(StrEnum):
    """Why a session cannot be opened although it is stored."""

    COMPILE_DIED = "compile_died"
    """The compiling process ended, most likely for want of memory."""
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


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that queries can run on."""

    ref: SessionRef
    compiled: CompiledSession
    backend: Backend
    etag_base: str
    """Changes whenever an answer can: schema and fingerprint."""


@dataclass(slots=True)
class _Held:
    session: OpenSession
    recheck_s: float
    """How long it holds before the source is looked at again; 0: for ever."""
    checked_at_s: float
    used_at_s: float
    is_refreshing: bool = False


@dataclass(slots=True)
class _Failure:
    error: SessionBrokenError
    number: int
    until_s: float


class Sessions:
    """All sessions that this process has open. Safe to use from any thread."""

    def __init__(
        self,
        backend: Backend,
        cache_dir: Path,
        *,
        max_bytes: int = MAX_BYTES,
        workers: int = 2,
        max_compiles: int = 1,
        max_open: int = 16,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open sessions of a backend.

        Args:
            backend: where they are; it must pickle, for the compiling process.
            cache_dir: a folder that processes of this machine may share.
            max_bytes: of compiled files there.
            workers: processes that one compile may use.
            max_compiles: compiles at once, over all processes that share `cache_dir`.
            max_open: sessions kept open in this process.
            monotonic_s: the clock.

        """
        self._backend = backend
        self._cache_dir = cache_dir
        self._cache = CompiledCache(cache_dir, max_bytes=max_bytes)
        self._max_bytes = max_bytes
        self._workers = workers
        self._max_compiles = max_compiles
        self._max_open = max_open
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._held: dict[SessionRef, _Held] = {}
        self._opening: dict[SessionRef, threading.Lock] = {}
        self._failures: dict[str, _Failure] = {}
        self._distrusted: dict[str, float] = {}
        self._background = ThreadPoolExecutor(2, thread_name_prefix="sessions")

    def peek(self, ref: SessionRef) -> OpenSession | None:
        """Give a session that is open, at once; a stale one is renewed in the background."""
        with self._lock:
            held = self._held.get(ref)
            if held is None or not self._is_there(ref, held):
                return None
            held.used_at_s = self._monotonic_s()
            if self._is_due(held) and not held.is_refreshing:
                held.is_refreshing = True
                self._background.submit(self._refresh, ref, held)
            return held.session

    def open(self, ref: SessionRef) -> OpenSession:
        """Open a session, whatever it takes.

        Raises `SessionNotFoundError`, `SessionBrokenError`, or `StorageError` when storage
        fails.
        """
        with self._lock:
            opening = self._opening.setdefault(ref, threading.Lock())
        with opening:
            with self._lock:
                held = self._held.get(ref)
                if held is not None and not self._is_there(ref, held):
                    held = None
                if held is not None and not self._is_due(held):
                    held.used_at_s = self._monotonic_s()
                    return held.session
            return self._open(ref, held).session

    def discard(self, session: OpenSession) -> bool:
        """Let go of a session whose file failed in a query: the next `open` makes it anew.

        Returns False when that was done a short while ago: then it does not help.
        """
        fingerprint = session.compiled.fingerprint
        now_s = self._monotonic_s()
        with self._lock:
            if now_s - self._distrusted.get(fingerprint, -FAILED_REST_S) < FAILED_REST_S:
                return False
            if len(self._distrusted) >= _FAILURES_KEPT:
                self._distrusted.clear()
            self._distrusted[fingerprint] = now_s
            held = self._held.get(session.ref)
            if held is not None and held.session is session:
                del self._held[session.ref]
        session.compiled.path.unlink(missing_ok=True)
        log.warning("%s: its compiled file is damaged, it is made anew", session.ref.session)
        return True

    def close(self) -> None:
        """Finish what runs in the background and let go of every session."""
        self._background.shutdown(wait=True)
        with self._lock:
            self._held.clear()

    def _is_due(self, held: _Held) -> bool:
        return bool(held.recheck_s) and self._monotonic_s() - held.checked_at_s >= held.recheck_s

    def _is_there(self, ref: SessionRef, held: _Held) -> bool:
        """Whether the file is still there, for the threads that have not opened it yet."""
        if held.session.compiled.path.exists():
            return True
        self._held.pop(ref, None)
        return False

    def _refresh(self, ref: SessionRef, held: _Held) -> None:
        try:
            self.open(ref)
        except Exception:  # whatever it is, the readers keep what is open
            log.exception("%s could not be renewed; the old state stays", ref.session)
            with self._lock:
                held.checked_at_s = self._monotonic_s()
        finally:
            held.is_refreshing = False

    def _open(self, ref: SessionRef, held: _Held | None) -> _Held:
        for attempt in range(_ATTEMPTS):
            try:
                source = locate(self._backend, ref)
                return self._hold(ref, source, self._current(source, held))
            except NotFoundError as error:
                raise SessionNotFoundError(f"no session {ref.session} is stored") from error
            except SourceChangedError as error:
                if attempt == _ATTEMPTS - 1:
                    raise SessionBrokenError(
                        BrokenReason.KEEPS_CHANGING,
                        f"the session {ref.session} changes while it is read; try again",
                    ) from error
            except OSError as error:
                raise SessionBrokenError(
                    BrokenReason.NO_SPACE, f"the session cache cannot be used: {error.strerror}"
                ) from error
        raise AssertionError("unreachable")

    def _current(self, source: SessionSource, held: _Held | None) -> CompiledSession:
        if held is not None and held.session.compiled.fingerprint == source.fingerprint:
            return held.session.compiled
        ref = source.session
        owner = f"{ref.namespace}/{ref.cluster}/{ref.session}"
        key = cache_key(owner, SCHEMA_VERSION, source.fingerprint)
        self._cache = CompiledCache(self._cache_dir, max_bytes=self._max_bytes)  # makes the folder
        with self._cache.making(key) as unfinished:
            found = self._cache.open(key)
            return found if found is not None else self._obtain(source, key, unfinished)

    def _obtain(self, source: SessionSource, key: str, unfinished: Path) -> CompiledSession:
        """Fetch or make the compiled file."""
        stored_key = compiled_key(source.session, SCHEMA_VERSION, source.fingerprint)
        is_damaged = source.fingerprint in self._distrusted
        if not is_damaged:
            fetched = fetch(self._backend, stored_key, unfinished, max_bytes=self._max_bytes)
            if fetched is Fetched.WHOLE:
                compiled = self._accept(source, key, stored_key, unfinished)
                if compiled is not None:
                    return compiled
            is_damaged = fetched is not Fetched.ABSENT
        unfinished.unlink(missing_ok=True)
        compiled = self._make(source, key, unfinished)
        if source.state != SessionState.RUNNING:
            self._background.submit(self._store, stored_key, compiled, replace=is_damaged)
        return compiled

    def _accept(
        self, source: SessionSource, key: str, stored_key: str, unfinished: Path
    ) -> CompiledSession | None:
        """Take over a fetched file, if it is what its key says."""
        try:
            compiled = self._cache.add(key, unfinished)
        except BrokenFileError as error:
            log.warning("%s: not usable, it is made anew: %s", stored_key, error)
            return None
        meta, ref = compiled.meta, source.session
        told = (meta.namespace, meta.cluster, meta.session, meta.fingerprint)
        if told == (ref.namespace, ref.cluster, ref.session, source.fingerprint):
            return compiled
        log.warning("%s: holds another session, it is made anew", stored_key)
        compiled.close()
        self._cache.remove(compiled.path)
        return None

    def _make(self, source: SessionSource, key: str, unfinished: Path) -> CompiledSession:
        """Compile, and remember what cannot be."""
        name = source.session.session
        failure = self._failures.get(source.fingerprint)
        if failure is not None and failure.until_s > self._monotonic_s():
            raise SessionBrokenError(failure.error.reason, str(failure.error))
        _sweep(self._cache_dir, key)
        try:
            with self._cache.slot(self._max_compiles):
                compile_apart(self._backend, source, unfinished, workers=self._workers)
            compiled = self._cache.add(key, unfinished)
        except (StorageError, OSError):
            raise
        except Exception as error:
            log.exception("%s could not be prepared", name)
            broken = _broken(name, error)
            self._remember(source.fingerprint, broken)
            raise broken from error
        self._failures.pop(source.fingerprint, None)
        return compiled

    def _remember(self, fingerprint: str, error: SessionBrokenError) -> None:
        """The first failure may be an accident, as a killed process; after that it rests."""
        before = self._failures.get(fingerprint)
        number = 1 if before is None else before.number + 1
        rest_s = 0.0 if number == 1 else FAILED_REST_S
        if len(self._failures) >= _FAILURES_KEPT:
            self._failures.clear()
        self._failures[fingerprint] = _Failure(error, number, self._monotonic_s() + rest_s)

    def _store(self, key: str, compiled: CompiledSession, *, replace: bool) -> None:
        """Store back for other replicas; one that may not write still serves."""
        try:
            store(self._backend, key, compiled.path, replace=replace)
        except StorageError as error:
            log.warning("%s could not be stored, other replicas compile it again: %s", key, error)

    def _hold(self, ref: SessionRef, source: SessionSource, compiled: CompiledSession) -> _Held:
        recheck_s = 0.0
        if source.state == SessionState.RUNNING:
            recheck_s = RUNNING_RECHECK_S
        elif not source.settled:
            recheck_s = UNSETTLED_RECHECK_S
        now_s = self._monotonic_s()
        session = OpenSession(
            ref=ref,
            compiled=compiled,
            backend=self._backend,
            etag_base=f"{SCHEMA_VERSION}-{compiled.fingerprint}-{compiled.meta.state}",
        )
        held = _Held(session, recheck_s, checked_at_s=now_s, used_at_s=now_s)
        with self._lock:
            self._held[ref] = held
            if len(self._held) > self._max_open:
                del self._held[min(self._held, key=lambda one: self._held[one].used_at_s)]
        return held


def open_sessions(settings: Settings, backend: Backend) -> Sessions:
    """Make the opener of sessions as the settings want it."""
    return Sessions(
        backend,
        settings.cache_dir,
        max_bytes=settings.cache_size_bytes,
        workers=settings.compile_workers,
    )


def _sweep(cache_dir: Path, key: str) -> None:
    """Remove what compiles of the same session left that were killed; we alone may make it now."""
    for path in [*cache_dir.glob(f".{key}.*"), *cache_dir.glob(f"..{key}.*")]:
        log.info("removing what a killed compile left: %s", path.name)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _broken(session: str, error: Exception) -> SessionBrokenError:
    """Why a compile failed, for the reader."""
    if isinstance(error, WorkerDiedError):
        return SessionBrokenError(
            BrokenReason.COMPILE_DIED, f"preparing the session {session} failed: {error}"
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
