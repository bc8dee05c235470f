"""The uploads of one session that wait or run, and what is done when they are through.

`submit` may be called from any thread. Outcomes are learned in `collect`, so that all that
follows from them happens in the one thread of the session's shipping.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from collector.shipping.uploads import DeadlineError, Shipper, Urgency
from storage.backend import Backend

Result = TypeVar("Result")


class Jobs:
    """Uploads with what follows them.

    Args:
        shipper: the queue of the process.
        monotonic: the clock of the deadline.

    """

    def __init__(self, shipper: Shipper, *, monotonic: Callable[[], float]) -> None:
        self.wake = threading.Event()
        """Set when an upload is through."""
        self._shipper, self._monotonic = shipper, monotonic
        self._deadline_s: float | None = None
        self._waiting: deque[tuple[Future[object], Callable[[Future[object]], None]]] = deque()

    @property
    def backend(self) -> Backend:
        """Where the uploads go."""
        return self._shipper.backend

    @property
    def idle(self) -> bool:
        """No upload waits or runs."""
        return not self._waiting

    def submit(
        self,
        kind: str,
        work: Callable[[], Result],
        done: Callable[[Future[Result]], None],
        *,
        urgency: Urgency,
        size_bytes: int = 0,
    ) -> None:
        """Queue an upload whose outcome `done` learns in a later `collect`."""
        future = self._shipper.submit(kind, work, urgency=urgency, size_bytes=size_bytes)
        self._waiting.append((future, done))  # type: ignore[arg-type]
        future.add_done_callback(lambda _: self.wake.set())

    def collect(self) -> None:
        """Take note of the uploads that are through."""
        for _ in range(len(self._waiting)):
            future, done = self._waiting.popleft()
            if future.done():
                done(future)
            else:
                self._waiting.append((future, done))

    def cancel(self) -> None:
        """Drop all uploads that are queued; running ones end by themselves."""
        for future, _ in list(self._waiting):
            future.cancel()

    def hurry(self, deadline_s: float) -> None:
        """From now on time counts: retries are short, and streams end at the deadline."""
        self._deadline_s = deadline_s
        self._shipper.hurry()

    def resume(self) -> None:
        """There is no deadline any more."""
        self._deadline_s = None

    def guard(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The same chunks, until the deadline ends them with `DeadlineError`."""
        for chunk in chunks:
            if self._deadline_s is not None and self._monotonic() >= self._deadline_s:
                raise DeadlineError("not done within the time of the shutdown")
            yield chunk
