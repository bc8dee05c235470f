"""The HTTP side: takes Ray's POSTs, answers when their events are on disk.

What Ray does (measured): it sends the same batch again for ever on any status of 400 or more
and holds back everything behind it, and it gives up waiting after 3 s although the batch may
be stored. So the answer is 200 whenever the content is dealt with, good or bad, and 503 with
`Retry-After` only when the disk takes no more or the drain is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import mmap
import time
from collections.abc import Callable, Iterator
from enum import Enum

from aiohttp import web

from collector.intake.bodies import BodyReader
from collector.intake.disk_thread import DiskThread
from collector.intake.envelope import BodyError
from collector.journal import NoSpaceError
from collector.metrics import CONTENT_TYPE, CollectorMetrics

log = logging.getLogger(__name__)

EVENTS_PATH = "/v1/events"
MAX_AT_ONCE = 8
"""Bodies in memory at a time; Ray has one POST in flight per node. One whose start has not
come in is none yet: slow senders must not keep others waiting."""
SLOT_WAIT_S = 2.0
"""Less than the 3 s after which Ray gives up."""
RETRY_AFTER_S = 1
_FULL = {errno.ENOSPC, errno.EDQUOT}


class Refusal(Enum):
    """Why a POST was answered 503: log field and metric label."""

    DRAINED = "drained"
    BUSY = "busy"
    DISK_FULL = "disk_full"
    DISK_ERROR = "disk_error"
    SLOW_SENDER = "slow_sender"
    SPOOL_ERROR = "spool_error"
    INTERNAL = "internal"
    """A fault of ours, told in the log."""


class RefusedError(Exception):
    """The POST is not taken; Ray will send it again."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal


class Intake:
    """Handles `POST /v1/events`.

    Args:
        disk: commits bodies.
        bodies: reads them.
        metrics: counts answers.

    """

    def __init__(self, *, disk: DiskThread, bodies: BodyReader, metrics: CollectorMetrics) -> None:
        self._disk = disk
        self._bodies = bodies
        self._metrics = metrics
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)
        self._open = True
        self._busy = 0
        self._last_post_s = time.monotonic()

    def close(self) -> None:
        """From now on refuse: the drain is over and nothing more would be shipped."""
        self._open = False

    @property
    def busy(self) -> bool:
        """Whether a POST is under way."""
        return self._busy > 0

    @property
    def idle_s(self) -> float:
        """How long no POST has been under way or come in."""
        return 0.0 if self._busy else time.monotonic() - self._last_post_s

    async def post(self, request: web.Request) -> web.Response:
        """Answer one POST."""
        self._busy += 1
        start_s = time.perf_counter()
        try:
            await self._take(request)
        except RefusedError as refused:
            return self._refuse(refused.refusal)
        finally:
            self._busy -= 1
            self._last_post_s = time.monotonic()
            self._metrics.ack_seconds.observe(time.perf_counter() - start_s)
        self._metrics.posts.labels("200").inc()
        return web.Response()

    async def _take(self, request: web.Request) -> None:
        if not self._open:
            raise RefusedError(Refusal.DRAINED)
        with _reading():
            start = await self._bodies.begin(request)
        try:
            async with asyncio.timeout(SLOT_WAIT_S):
                await self._slots.acquire()
        except TimeoutError as error:
            raise RefusedError(Refusal.BUSY) from error
        try:
            await self._store(request, start)
        finally:
            self._slots.release()

    async def _store(self, request: web.Request, start: bytearray) -> None:
        try:
            with _reading():
                body = await self._bodies.finish(request, start)
        except BodyError as error:
            log.warning("body quarantined", extra={"reason": error.reason.value})
            return
        try:
            await asyncio.shield(self._disk.submit(body))
        except NoSpaceError as error:
            raise RefusedError(Refusal.DISK_FULL) from error
        except OSError as error:
            full = error.errno in _FULL
            raise RefusedError(Refusal.DISK_FULL if full else Refusal.DISK_ERROR) from error
        except Exception as error:
            raise RefusedError(Refusal.INTERNAL) from error
        finally:
            if isinstance(body, mmap.mmap):
                with contextlib.suppress(BufferError):
                    body.close()

    def _refuse(self, refusal: Refusal) -> web.Response:
        self._metrics.posts.labels("503").inc()
        self._metrics.refused.labels(refusal.value).inc()
        log.warning("refused", extra={"reason": refusal.value})
        return web.Response(status=503, headers={"Retry-After": str(RETRY_AFTER_S)})


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """What the reading of a body raises, as refusals."""
    try:
        yield
    except TimeoutError as error:
        raise RefusedError(Refusal.SLOW_SENDER) from error
    except ConnectionError:
        raise
    except OSError as error:
        raise RefusedError(Refusal.SPOOL_ERROR) from error


def probe_routes(
    *, metrics: CollectorMetrics, ready: Callable[[], str | None]
) -> list[web.RouteDef]:
    """`/healthz`, `/readyz` and `/metrics`.

    Args:
        metrics: what `/metrics` renders.
        ready: None when ready, else one line that says why not.

    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        why_not = ready()
        return web.Response(text=f"{why_not or 'ok'}\n", status=503 if why_not else 200)

    async def render(_: web.Request) -> web.Response:
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    return [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", render)]


def events_app(intake: Intake, probes: list[web.RouteDef]) -> web.Application:
    """The application that Ray posts to, with the probes beside it."""
    app = web.Application()
    app.router.add_post(EVENTS_PATH, intake.post)
    app.router.add_post(f"{EVENTS_PATH}/", intake.post)
    app.add_routes(probes)
    return app
