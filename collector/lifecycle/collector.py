"""Start, run, drain: the order of everything, in one place.

Start: the journal is recovered before the first POST is answered, and POSTs are answered
before the session is known, since Ray sends as soon as it is up. Run: the session is looked
for every second; a new one is followed while the old one is finished beside it. Drain: see
`collector.lifecycle.draining`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Mapping
from functools import partial

from aiohttp import web

from collector.intake.bodies import BodyReader
from collector.intake.dedupe import DEFAULT_CAPACITY
from collector.intake.disk_thread import restore_window
from collector.intake.http import Intake, events_app, probe_routes
from collector.lifecycle.assembly import StartError, assemble
from collector.lifecycle.background import repeat
from collector.lifecycle.draining import Drain, drain
from collector.lifecycle.leftovers import EVERY_S
from collector.lifecycle.listeners import ListenError, listen
from collector.metrics import BackgroundTask
from collector.options import IGNORED
from collector.settings import Settings
from storage.backend import Backend

__all__ = ["Collector", "StartError"]

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0


class Collector:
    """The whole process, but for the command line. Raises `StartError`.

    Args:
        settings: checked settings.
        backend: where to.
        version: of this collector.
        env: the environment, for dashboard credentials only.

    """

    def __init__(
        self, settings: Settings, backend: Backend, *, version: str, env: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self._parts = assemble(settings, backend, version=version, env=env)
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._draining = False

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, then drain. Raises `StartError`."""
        self._handle_signals()
        self._tell_settings()
        parts = self._parts
        await asyncio.to_thread(
            restore_window,
            parts.window,
            parts.follow.journal,
            self._settings.data_dir,
            limit=DEFAULT_CAPACITY,
        )
        parts.follow.disk.start()
        intake, runners = await self._listen()
        loops = self._start_loops()
        await self._stop.wait()
        start_s = time.monotonic()
        self._draining = True
        await drain(
            Drain(
                settings=self._settings,
                intake=intake,
                follower=parts.follower,
                loops=loops,
                final_poll=parts.dashboard.final_poll,
                shipper=parts.follow.shipper,
                errors=parts.metrics.loop_errors,
                hurry=self._hurry,
                start_s=start_s,
            )
        )
        await parts.dashboard.close()
        await parts.node_list.close()
        await asyncio.to_thread(parts.follow.disk.close)
        for runner in runners:
            await runner.cleanup()
        took_s = time.monotonic() - start_s
        parts.metrics.drain_seconds.set(took_s)
        log.info("stopped", extra={"drain_s": round(took_s, 2)})

    def _start_loops(self) -> list[asyncio.Task[None]]:
        follower = self._parts.follower
        start = partial(repeat, errors=self._parts.metrics.loop_errors)
        return [
            asyncio.create_task(
                start(follower.look, every_s=LOOK_EVERY_S, task=BackgroundTask.FOLLOW)
            ),
            asyncio.create_task(
                start(
                    follower.leftovers.look,
                    every_s=EVERY_S,
                    task=BackgroundTask.LEFTOVERS,
                    wake=follower.switched,
                )
            ),
        ]

    def _tell_settings(self) -> None:
        """Say what the settings mean where a user may not expect it."""
        for name in self._settings.ignored:
            log.info("option does nothing here", extra={"option": name, "why": IGNORED[name]})
        if self._settings.events_are_open:
            log.warning(
                "events are taken from other machines: whoever reaches the port can add to the "
                "history",
                extra={"events_address": self._settings.events_address},
            )

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, self._on_signal, signum)

    def _on_signal(self, signum: int) -> None:
        log.info("signal", extra={"signal": signal.Signals(signum).name})
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def _listen(self) -> tuple[Intake, list[web.AppRunner]]:
        settings, metrics = self._settings, self._parts.metrics
        bodies = BodyReader(settings.data_dir / "spool", self._parts.quarantine)
        intake = Intake(disk=self._parts.follow.disk, bodies=bodies, metrics=metrics)
        probes = probe_routes(metrics=metrics, ready=lambda: "draining" if self._draining else None)
        runners = []
        try:
            if settings.collect_events:
                runners.append(
                    await listen(
                        events_app(intake, probes),
                        address=settings.events_address,
                        port=settings.events_port,
                        what="events",
                    )
                )
            runners.append(
                await listen(
                    probes,
                    address=settings.metrics_address,
                    port=settings.metrics_port,
                    what="metrics",
                )
            )
        except ListenError as error:
            raise StartError(str(error)) from error
        return intake, runners
