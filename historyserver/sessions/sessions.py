"""Opens sessions, each once for all: threads that want the same one share one piece of work.

A session that still runs is looked at again after a while; meanwhile readers get what is open.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from historyserver.sessions.errors import SessionBrokenError, SessionNotFoundError
from historyserver.sessions.preparing import Prepared, Preparer
from historyserver.sessions.session import OpenSession
from historyserver.sessions.watching import OpeningOutcome, SessionWatch
from storage.backend import StorageError
from storage.layout import SessionRef

log = logging.getLogger(__name__)

OPENING_THREADS = 8
MAX_OPEN = 16
"""Sessions that one process keeps open."""


@dataclass(slots=True)
class _Held:
    session: OpenSession
    recheck_s: float
    checked_at_s: float
    used_at_s: float


class Sessions:
    """All sessions that this process has open. Safe to use from any thread."""

    def __init__(
        self,
        preparer: Preparer,
        *,
        watch: SessionWatch,
        max_open: int = MAX_OPEN,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open sessions.

        Args:
            preparer: prepares those that are not open.
            watch: counts.
            max_open: sessions kept open in this process.
            monotonic_s: the clock.

        """
        self._preparer = preparer
        self._watch = watch
        self._max_open = max_open
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._held: dict[SessionRef, _Held] = {}
        self._work: dict[SessionRef, Future[OpenSession]] = {}
        self._threads = ThreadPoolExecutor(OPENING_THREADS, thread_name_prefix="opening")

    def peek(self, ref: SessionRef) -> OpenSession | None:
        """Give a session that is open, at once; a stale one is renewed in the background."""
        with self._lock:
            held = self._usable(ref)
            if held is None:
                return None
            held.used_at_s = self._monotonic_s()
            is_due = self._is_due(held)
        if is_due:
            self.start(ref)
        return held.session

    def start(self, ref: SessionRef) -> Future[OpenSession]:
        """Begin to open a session, or join whoever does; the result is that of `open`."""
        with self._lock:
            running = self._work.get(ref)
            if running is not None and not running.done():
                return running
            work = self._work[ref] = self._threads.submit(self._open, ref)
        # Outside the lock: a future that is done already calls back at once, in this thread.
        work.add_done_callback(lambda done: self._finished(ref, done))
        return work

    def open(self, ref: SessionRef) -> OpenSession:
        """Open a session, whatever it takes.

        Raises `SessionNotFoundError`, `SessionBrokenError`, or `StorageError` when storage
        fails.
        """
        return self.start(ref).result()

    def discard(self, session: OpenSession) -> bool:
        """Let go of a session whose file failed in a query: the next `open` makes it anew.

        Returns False when that was done a short while ago: then it does not help.
        """
        if not self._preparer.distrust(session.compiled):
            return False
        with self._lock:
            held = self._held.get(session.ref)
            if held is not None and held.session is session:
                del self._held[session.ref]
        fields = {"session": session.ref.session}
        log.warning("a compiled file is damaged, it is made anew", extra=fields)
        return True

    def close(self) -> None:
        """Take no work any more, finish what runs in the background, let go of every session."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._preparer.close()
        with self._lock:
            self._held.clear()

    def _usable(self, ref: SessionRef) -> _Held | None:
        """What is open, if its file is still there for the threads that have not opened it yet."""
        held = self._held.get(ref)
        if held is not None and not held.session.compiled.path.exists():
            del self._held[ref]
            return None
        return held

    def _is_due(self, held: _Held) -> bool:
        return bool(held.recheck_s) and self._monotonic_s() - held.checked_at_s >= held.recheck_s

    def _open(self, ref: SessionRef) -> OpenSession:
        with self._lock:
            held = self._usable(ref)
            if held is not None and not self._is_due(held):
                held.used_at_s = self._monotonic_s()
                return held.session
        return self._watched(ref) if held is None else self._renewed(ref, held)

    def _renewed(self, ref: SessionRef, held: _Held) -> OpenSession:
        try:
            return self._hold(ref, self._preparer.prepare(ref, held.session.compiled))
        except Exception:  # whatever it is, the readers keep what is open
            fields = {"session": ref.session}
            log.exception("a session could not be renewed, the old state stays", extra=fields)
            held.checked_at_s = self._monotonic_s()
            return held.session

    def _watched(self, ref: SessionRef) -> OpenSession:
        began_s = time.perf_counter()
        outcome = OpeningOutcome.FAILED
        try:
            prepared = self._preparer.prepare(ref, None)
            outcome = OpeningOutcome.OPENED
        except SessionNotFoundError:
            outcome = OpeningOutcome.NOT_FOUND
            raise
        except SessionBrokenError as error:
            outcome = OpeningOutcome.BROKEN
            self._watch.broken(error.reason)
            raise
        except StorageError:
            outcome = OpeningOutcome.STORAGE_FAILED
            raise
        finally:
            self._watch.opened(outcome, time.perf_counter() - began_s)
        return self._hold(ref, prepared)

    def _hold(self, ref: SessionRef, prepared: Prepared) -> OpenSession:
        now_s = self._monotonic_s()
        held = _Held(prepared.session, prepared.recheck_s, checked_at_s=now_s, used_at_s=now_s)
        with self._lock:
            self._held[ref] = held
            if len(self._held) > self._max_open:
                del self._held[min(self._held, key=lambda one: self._held[one].used_at_s)]
        return held.session

    def _finished(self, ref: SessionRef, work: Future[OpenSession]) -> None:
        with self._lock:
            if self._work.get(ref) is work:
                del self._work[ref]
