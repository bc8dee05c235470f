"""Small pieces of concurrency that the lifecycle is made of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeVar

from collector.metrics import BackgroundTask, LoopErrors

log = logging.getLogger(__name__)

T = TypeVar("T")


def in_daemon_thread(work: Callable[[], T], *, name: str) -> asyncio.Future[T]:
    """Run blocking work beside the event loop, without the process waiting for it at exit.

    For work that may wait for storage as long as storage is away: what it leaves undone
    stays on disk for the next start.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(done)


async def repeat(
    step: Callable[[], Awaitable[None]],
    *,
    every_s: float,
    task: BackgroundTask,
    errors: LoopErrors,
    wake: asyncio.Event | None = None,
) -> None:
    """Call `step` for ever; a failure is logged and counted, and the next call comes anyway.

    Args:
        step: what to do.
        every_s: the pause between two calls.
        task: its name in log and metrics.
        errors: where failures are counted.
        wake: when set, the next call comes at once.

    """
    alarm = wake if wake is not None else asyncio.Event()
    while True:
        alarm.clear()
        try:
            await step()
        except Exception:
            errors.count(task)
            log.exception("background task failed", extra={"task": task.value})
        # Not `wait_for`: before Python 3.12 it can swallow a cancellation.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(every_s):
                await alarm.wait()
