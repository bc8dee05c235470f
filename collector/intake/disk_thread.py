"""The disk thread: all writes to the journal happen here, one after the other.

The event loop hands bodies over and awaits their outcome. Whatever waits while a write is
under way is committed together by the next one, so a slow disk makes groups larger, not
queues longer. A second thread syncs segments to the device, so that no answer waits for that.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Any, Literal, TypeVar

from collector.intake.commits import Batch, CommitParts, Group
from collector.intake.dedupe import Window, digest
from collector.intake.envelope import event_id_of_line
from collector.journal import Journal
from collector.journal.journal import SYNC_INTERVAL_S
from collector.metrics import JournalOperation

log = logging.getLogger(__name__)

T = TypeVar("T")

GROUP_BYTES = 8 * 1024 * 1024
ROTATION_CHECK_S = 1.0
RECENT_IDS = "recent-ids"


@dataclass(frozen=True, slots=True)
class _Commit:
    batch: Batch
    done: Future[None]


@dataclass(frozen=True, slots=True)
class _Call:
    work: Callable[[], Any]
    done: Future[Any]


_Item = _Commit | _Call | None
"""None ends the thread."""


def restore_window(window: Window, journal: Journal, data_dir: Path, *, limit: int) -> None:
    """Fill the dedupe window with the ids that an earlier process stored.

    From the file saved when segments were last sealed (those may be in cold storage and
    gone), then from the segments that are on disk.
    """
    window.load(data_dir / RECENT_IDS)
    window.add_all(
        digest(event_id) for line in journal.recover(limit) if (event_id := event_id_of_line(line))
    )


class DiskThread:
    """Runs commits and other journal work in order. `start` it, `close` it at the very end."""

    def __init__(self, parts: CommitParts) -> None:
        self._parts = parts
        self._queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)
        self._syncer = threading.Thread(target=self._sync, name="sync", daemon=True)
        self._closed = threading.Event()
        self._rotated_s = time.monotonic()
        self._put_back: tuple[_Item] | None = None

    def start(self) -> None:
        """Start both threads."""
        self._thread.start()
        self._syncer.start()

    def submit(self, body: bytes | mmap) -> asyncio.Future[None]:
        """Commit a body. The future fails with `NoSpaceError` or `OSError` when it is not stored.

        A `mmap` body must stay open until then.
        """
        done: Future[None] = Future()
        self._queue.put(_Commit(Batch(body), done))
        return asyncio.wrap_future(done)

    def call(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run something else on the disk thread, in turn (seal, adopt)."""
        done: Future[T] = Future()
        self._queue.put(_Call(work, done))
        return asyncio.wrap_future(done)

    def close(self) -> None:
        """Finish what was handed over, sync, and end both threads."""
        self._queue.put(None)
        self._thread.join()
        self._closed.set()
        self._parts.journal.sync_wanted.set()
        self._syncer.join()

    def _run(self) -> None:
        while True:
            self._rotate()
            item = self._next()
            if isinstance(item, _Commit):
                self._commit([item, *self._waiting(len(item.batch.body))])
            elif isinstance(item, _Call):
                _run_call(item)
            elif item is None:
                return

    def _next(self) -> _Item | Literal["nothing"]:
        if self._put_back is not None:
            (item,) = self._put_back
            self._put_back = None
            return item
        try:
            return self._queue.get(timeout=ROTATION_CHECK_S)
        except queue.Empty:
            return "nothing"

    def _waiting(self, size_bytes: int) -> Iterator[_Commit]:
        """The bodies that wait now, up to the next call and up to a size in all."""
        while self._put_back is None and size_bytes < GROUP_BYTES:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return
            if not isinstance(item, _Commit):
                self._put_back = (item,)
                return
            size_bytes += len(item.batch.body)
            yield item

    def _commit(self, commits: list[_Commit]) -> None:
        group = Group(self._parts)
        try:
            for commit in commits:
                group.add(commit.batch)
            group.close()
        except Exception as error:
            log.exception("commit failed")
            for commit in commits:
                commit.batch.error = commit.batch.error or error
        for commit in commits:
            if commit.done.set_running_or_notify_cancel():
                if commit.batch.error is None:
                    commit.done.set_result(None)
                else:
                    commit.done.set_exception(commit.batch.error)

    def _rotate(self) -> None:
        if time.monotonic() - self._rotated_s < ROTATION_CHECK_S:
            return
        self._rotated_s = time.monotonic()
        try:
            self._parts.journal.rotate()
        except OSError as error:
            self._count_error(JournalOperation.ROTATE)
            log.error("rotation failed", extra={"error": str(error)})

    def _sync(self) -> None:
        journal = self._parts.journal
        while not self._closed.is_set():
            journal.sync_wanted.wait(SYNC_INTERVAL_S)
            journal.sync_wanted.clear()
            try:
                journal.sync()
            except OSError as error:
                self._count_error(JournalOperation.SYNC)
                log.error("sync failed", extra={"error": str(error)})

    def _count_error(self, operation: JournalOperation) -> None:
        self._parts.metrics.journal_errors.labels(operation.value).inc()


def _run_call(call: _Call) -> None:
    if not call.done.set_running_or_notify_cancel():
        return
    try:
        call.done.set_result(call.work())
    except Exception as error:
        call.done.set_exception(error)
