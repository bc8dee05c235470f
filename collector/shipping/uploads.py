"""The upload queue: a few threads that try until storage takes it, most urgent first.

An upload is a function that talks to storage and can be called again. A failure that may
pass is tried again for ever, with growing pauses; nothing is held in memory meanwhile but
what a caller passed in, so callers pass what stays on disk, and at most one live segment.
At shutdown the caller waits as long as it may, then cancels the futures: what is not begun
is dropped, and a running body ends itself by raising `DeadlineError`.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Generic, TypeVar

from collector.shipping.metrics import ShippingMetrics
from storage.backend import (
    Backend,
    ConfigError,
    ExistsError,
    InvalidKeyError,
    NotFoundError,
    StorageError,
)

Result = TypeVar("Result")

AGAIN_AFTER_S = 10.0
"""What storage refused for good, or could not be read, is queued again after this: someone may
have put it right."""

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
_LASTING = (ConfigError, ExistsError, InvalidKeyError, NotFoundError)

_log = logging.getLogger(__name__)


class Urgency(IntEnum):
    """In which order waiting uploads are tried; lower goes first."""

    MANIFEST = 0
    SMALL = 1
    """Markers and snapshots."""
    HOT = 2
    EVENTS = 3
    LOGS = 4
    CLEANING = 5


class GiveUp(Enum):
    """Why an upload was given up."""

    REFUSED = "refused"
    """Storage said something that no later try can change."""
    LOCAL = "local"
    """What should be uploaded cannot be read."""
    DEADLINE = "deadline"
    """The time of the shutdown was over."""


class DeadlineError(Exception):
    """The upload was not done before the shutdown's deadline."""


def failure(future: Future[Result]) -> BaseException | None:
    """Why this upload, which is done, has no result."""
    try:
        return future.exception()
    except CancelledError as error:
        return error


@dataclass(slots=True)
class _Upload(Generic[Result]):
    kind: str
    urgency: Urgency
    order: tuple[int, int]
    work: Callable[[], Result]
    future: Future[Result] = field(default_factory=Future)
    due_s: float = 0.0
    tries: int = 0


class Shipper:
    """Runs uploads in a few threads; see the module.

    Args:
        backend: where to.
        threads: how many uploads at once.
        metrics: what to count on.
        monotonic: the clock of the pauses; tests pass a fast one.
        first_pause_s: before the first new try; doubles up to a minute.

    """

    def __init__(
        self,
        backend: Backend,
        *,
        threads: int = 4,
        metrics: ShippingMetrics | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        first_pause_s: float = _FIRST_PAUSE_S,
    ) -> None:
        self.backend = backend
        self._metrics = metrics if metrics is not None else ShippingMetrics()
        self._monotonic = monotonic
        self._first_pause_s = first_pause_s
        self._condition = threading.Condition()
        self._waiting: list[_Upload[object]] = []
        self._running = 0
        self._submitted = 0
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"upload-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        kind: str,
        work: Callable[[], Result],
        *,
        urgency: Urgency,
        size_bytes: int = 0,
    ) -> Future[Result]:
        """Queue an upload; the future tells its result, or why it was given up.

        Args:
            kind: what it is, for log and metrics: `hot`, `events`, `log`, ...
            work: does it; called again after a `StorageError` that may pass. Other
                exceptions end it.
            urgency: which go first.
            size_bytes: among equally urgent ones the smaller goes first.

        """
        with self._condition:
            self._submitted += 1
            upload = _Upload(kind, urgency, (size_bytes, self._submitted), work)
            if self._closed:
                upload.future.set_exception(DeadlineError(f"{kind}: the collector is closed"))
                return upload.future
            self._waiting.append(upload)  # type: ignore[arg-type]
            self._metrics.queued.set(len(self._waiting) + self._running)
            self._condition.notify()
        return upload.future

    def hurry(self) -> None:
        """Try everything that waits out a pause at once: a shutdown has begun."""
        with self._condition:
            for upload in self._waiting:
                upload.due_s = 0.0
                upload.tries = 0
            self._condition.notify_all()

    def close(self) -> None:
        """Give up what still waits. Threads end after the upload that they are in."""
        with self._condition:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            self._condition.notify_all()
        for upload in waiting:
            self._give_up(upload, GiveUp.DEADLINE, DeadlineError(f"{upload.kind}: closed"))

    def _work(self) -> None:
        while True:
            upload = self._next()
            if upload is None:
                return
            try:
                self._try(upload)
            finally:
                with self._condition:
                    self._running -= 1
                    self._metrics.queued.set(len(self._waiting) + self._running)

    def _next(self) -> _Upload[object] | None:
        with self._condition:
            while not self._closed:
                now_s = self._monotonic()
                due = [upload for upload in self._waiting if upload.due_s <= now_s]
                if due:
                    upload = min(due, key=lambda one: (one.urgency, one.order))
                    self._waiting.remove(upload)
                    self._running += 1
                    return upload
                soonest_s = min((upload.due_s for upload in self._waiting), default=now_s + 3600)
                # A new upload notifies; a clock that runs fast in a test needs the short wait.
                self._condition.wait(min(max(soonest_s - now_s, 0.001), 1.0))
            return None

    def _try(self, upload: _Upload[object]) -> None:
        if upload.future.cancelled():
            self._metrics.upload_failures.labels(upload.kind, GiveUp.DEADLINE.value).inc()
            return
        try:
            with self._metrics.upload_seconds.labels(upload.kind).time():
                result = upload.work()
        except _LASTING as error:
            self._give_up(upload, GiveUp.REFUSED, error)
        except StorageError as error:
            self._try_later(upload, error)
        except DeadlineError as error:
            self._give_up(upload, GiveUp.DEADLINE, error)
        except Exception as error:  # a fault of the caller's function must reach the caller
            self._give_up(upload, GiveUp.LOCAL, error)
        else:
            self._metrics.uploads.labels(upload.kind).inc()
            with contextlib.suppress(InvalidStateError):  # cancelled while it ran
                upload.future.set_result(result)

    def _try_later(self, upload: _Upload[object], error: StorageError) -> None:
        self._metrics.upload_retries.labels(upload.kind).inc()
        pause_s = min(self._first_pause_s * 2**upload.tries, _LONGEST_PAUSE_S)
        pause_s *= 0.75 + random.random() / 2
        upload.tries += 1
        _log.warning(
            "upload failed, trying again",
            extra={"kind": upload.kind, "pause_s": round(pause_s, 2), "error": str(error)},
        )
        with self._condition:
            upload.due_s = self._monotonic() + pause_s
            if not self._closed:
                self._waiting.append(upload)
                self._condition.notify()
                return
        self._give_up(upload, GiveUp.DEADLINE, error)

    def _give_up(self, upload: _Upload[object], reason: GiveUp, error: Exception) -> None:
        self._metrics.upload_failures.labels(upload.kind, reason.value).inc()
        _log.warning(
            "upload given up",
            extra={"kind": upload.kind, "reason": reason.value, "error": str(error)},
        )
        with contextlib.suppress(InvalidStateError):
            upload.future.set_exception(error)
