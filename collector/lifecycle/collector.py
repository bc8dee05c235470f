"""Start, run, drain: the order of everything, in one place.

Start: the journal is recovered before the first POST is answered, and POSTs are answered
before the session is known, since Ray sends as soon as it is up. Run: the session is looked
for every second; a new one is followed while the old one is finished beside it. Drain: see
`collector.lifecycle.draining`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from aiohttp import web

from collector.intake.bodies import BodyReader
from collector.intake.commits import CommitParts
from collector.intake.dedupe import DEFAULT_GENERATION, Window
from collector.intake.disk_thread import RECENT_IDS, DiskThread, restore_window
from collector.intake.envelope import Event
from collector.intake.http import Intake, events_app, probe_routes
from collector.intake.ledger import Ledger
from collector.intake.quarantine import Quarantine
from collector.journal import Journal
from collector.journal.recovery import PENDING_NODE
from collector.lifecycle.background import repeat
from collector.lifecycle.dashboard_polling import Dashboard
from collector.lifecycle.discovery import Discovery
from collector.lifecycle.draining import Drain, drain
from collector.lifecycle.following import (
    FollowedSession,
    FollowParts,
    NodePair,
    forget_finished,
    was_finished,
)
from collector.lifecycle.leftovers import EVERY_S, PATIENCE_S, Leftovers
from collector.lifecycle.listeners import ListenError, listen
from collector.metrics import CollectorMetrics
from collector.options import IGNORED
from collector.ray_session import Raylet, RaySession, probe_raylet
from collector.settings import Settings
from collector.shipping.markers import EndReason
from collector.shipping.metrics import ShippingMetrics
from collector.shipping.uploads import Shipper
from storage.backend import Backend

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
STARTING_S = 300.0
"""A raylet that was never seen alive is given so long."""
QUIET_S = 3.0
"""Ray writes logs up to 2.4 s after its SIGTERM; files quiet for this long are done."""


class StartError(Exception):
    """The collector cannot start; one line for the user."""


class Collector:
    """The whole process, but for the command line.

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
        self._lock_file = _lock(settings.data_dir)
        self._metrics = CollectorMetrics()
        shipping_metrics = ShippingMetrics(self._metrics.registry)
        self._window = Window()
        self._journal = Journal(
            settings.data_dir,
            limits=settings.limits,
            metrics=self._metrics,
            before_seal=lambda: self._window.save(settings.data_dir / RECENT_IDS),
        )
        ledger = Ledger()
        self._quarantine = Quarantine(
            settings.data_dir / "quarantine",
            max_bytes=settings.quarantine_max_bytes,
            metrics=self._metrics,
            ledger=ledger,
        )
        self._nodes: dict[str, str] = {}
        self._disk = DiskThread(
            CommitParts(
                journal=self._journal,
                window=self._window,
                quarantine=self._quarantine,
                ledger=ledger,
                metrics=self._metrics,
                node_of=self._node_of,
            )
        )
        self._parts = FollowParts(
            settings=settings,
            journal=self._journal,
            disk=self._disk,
            ledger=ledger,
            shipper=Shipper(backend, metrics=shipping_metrics),
            metrics=self._metrics,
            shipping_metrics=shipping_metrics,
            version=version,
        )
        self._dashboard = Dashboard(settings, env=env, metrics=shipping_metrics)
        self._discovery = Discovery(settings, headers=self._dashboard.headers)
        self._leftovers = Leftovers(
            self._parts,
            followed=lambda: self._current.pair if self._current else None,
            newest=self._newest_session,
            ship_snapshots=self._dashboard.ship_left,
        )
        self._current: FollowedSession | None = None
        self._ended: NodePair | None = None
        self._raylet_seen_s = time.monotonic()
        self._raylet_seen_ms = 0
        """0 until the followed session's raylet has been seen alive."""
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._switched = asyncio.Event()
        self._draining = False

    # --- the run ------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, then drain. Raises `StartError`."""
        self._handle_signals()
        for name in self._settings.ignored:
            log.info("option does nothing here", extra={"option": name, "why": IGNORED[name]})
        await asyncio.to_thread(
            restore_window,
            self._window,
            self._journal,
            self._settings.data_dir,
            limit=DEFAULT_GENERATION,
        )
        self._disk.start()
        intake, runners = await self._listen()
        start = partial(repeat, metrics=self._metrics)
        loops = [
            asyncio.create_task(start(self._follow, every_s=LOOK_EVERY_S, task="follow")),
            asyncio.create_task(
                start(self._leftovers.look, every_s=EVERY_S, task="leftovers", wake=self._switched)
            ),
        ]
        await self._stop.wait()
        start_s = time.monotonic()
        self._draining = True
        await drain(
            Drain(
                settings=self._settings,
                intake=intake,
                current=lambda: self._current,
                release=self._release,
                follow=self._follow,
                raylet_seen_s=lambda: self._raylet_seen_s,
                loops=loops,
                final_poll=self._dashboard.final_poll,
                leftovers=self._leftovers,
                shipper=self._parts.shipper,
                hurry=self._hurry,
                start_s=start_s,
            )
        )
        await self._dashboard.close()
        await asyncio.to_thread(self._disk.close)
        for runner in runners:
            await runner.cleanup()
        self._metrics.drain_seconds.set(time.monotonic() - start_s)
        log.info("stopped", extra={"drain_s": round(time.monotonic() - start_s, 2)})

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
        settings = self._settings
        bodies = BodyReader(settings.data_dir / "spool", self._quarantine)
        intake = Intake(disk=self._disk, bodies=bodies, metrics=self._metrics)
        probes = probe_routes(
            metrics=self._metrics, ready=lambda: "draining" if self._draining else None
        )
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

    # --- following ----------------------------------------------------------------------

    async def _follow(self) -> None:
        """Look which session runs, and follow it."""
        session = await self._discovery.look()
        self._metrics.session_known.set(session is not None)
        if session is None:
            return
        pair = (session.session_name, session.node_id)
        raylet = await asyncio.to_thread(probe_raylet, session.session_dir)
        self._metrics.raylet_up.set(raylet is Raylet.UP)
        if self._current is None or self._current.pair != pair:
            await self._maybe_switch(session, pair, raylet)
        if raylet is not Raylet.GONE:
            self._raylet_seen_s = time.monotonic()
            self._raylet_seen_ms = time.time_ns() // 1_000_000
        elif self._current is not None:
            self._maybe_end(self._current)
        if self._journal.pressed and self._current is not None:
            self._current.shipping.press()

    async def _maybe_switch(self, session: RaySession, pair: NodePair, raylet: Raylet) -> None:
        """Follow another session, unless it is one that ended already and is still dead."""
        over = self._ended == pair or was_finished(self._settings.data_dir, pair)
        if over and raylet is not Raylet.UP:
            self._ended = pair
            return
        if self._leftovers.is_running(pair):
            return  # its end is being written; it is followed again after that
        old, self._current = self._current, None
        if old is not None:
            self._leftovers.finish(
                old, EndReason.SESSION_CHANGED, deadline_s=time.monotonic() + PATIENCE_S
            )
        self._nodes[session.session_name] = session.node_id
        await self._disk.call(partial(self._journal.adopt, *pair))
        forget_finished(self._settings.data_dir, pair)
        self._metrics.session_changes.inc()
        followed = FollowedSession(session, self._parts)
        await asyncio.to_thread(self._dashboard.ship_left, followed)
        followed.start()
        self._current, self._ended = followed, None
        self._raylet_seen_s, self._raylet_seen_ms = time.monotonic(), 0
        self._dashboard.follow(followed)
        self._switched.set()

    def _maybe_end(self, followed: FollowedSession) -> None:
        """Finish the session when its raylet has been gone for long and its logs are quiet.

        One that was never seen alive may still be starting, which takes long on a busy node.
        """
        gone_s = time.monotonic() - self._raylet_seen_s
        patience_s = self._settings.ray_gone_after_s
        if not self._raylet_seen_ms:
            patience_s = max(patience_s, STARTING_S)
        if gone_s < patience_s or followed.shipping.quiet_s() < QUIET_S:
            return
        self._current, self._ended = None, followed.pair
        self._leftovers.finish(
            followed,
            EndReason.RAY_GONE,
            deadline_s=time.monotonic() + PATIENCE_S,
            ended_ms=self._raylet_seen_ms or None,
        )

    def _release(self) -> None:
        """The drain has finished the followed session."""
        followed, self._current = self._current, None
        if followed is not None:
            self._ended = followed.pair

    def _newest_session(self) -> str | None:
        if self._current is not None:
            return self._current.session.session_name
        return self._ended[0] if self._ended is not None else None

    def _node_of(self, event: Event) -> str:
        """Whose folder an event is filed in: this node's, once it is known; else the sender's."""
        return self._nodes.get(event.session) or event.node_id or PENDING_NODE


def _lock(data_dir: Path) -> int:
    """Take the data directory for this process, as long as it lives."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise StartError(f"--data-dir={data_dir}: {error.strerror}; give a writable one") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.close(handle)
        raise StartError(
            f"--data-dir={data_dir}: another collector uses it; give each its own"
        ) from error
    return handle
