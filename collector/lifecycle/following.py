"""One session being followed on this node: its markers, its shipping, its end."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from collector.intake.disk_thread import DiskThread
from collector.intake.ledger import Ledger
from collector.journal import Journal
from collector.lifecycle.background import in_daemon_thread
from collector.lifecycle.finished_marks import NodePair, remember_finished
from collector.metrics import CollectorMetrics
from collector.ray_session import RaySession, last_activity_ms
from collector.settings import Settings
from collector.shipping.markers import SessionEndReason, SessionMarkers
from collector.shipping.metrics import ShippingMetrics
from collector.shipping.parts import ShippingParts, ShippingSettings
from collector.shipping.session_shipping import FinishReport, SessionShipping
from collector.shipping.uploads import Shipper, Urgency

log = logging.getLogger(__name__)

END_TIME_S = ShippingSettings().manifest_reserve_s + 2.0
"""Kept of the drain's time for the last manifest and the end marker."""
END_SHARE = 0.4
"""But not more than this share of it, when there is little."""


@dataclass(frozen=True, slots=True)
class FollowParts:
    """What every followed session works with."""

    settings: Settings
    journal: Journal
    disk: DiskThread
    ledger: Ledger
    shipper: Shipper
    metrics: CollectorMetrics
    shipping_metrics: ShippingMetrics
    version: str


class FollowedSession:
    """Follows one (session, node) until `finish`.

    Args:
        session: which.
        parts: see `FollowParts`.
        with_logs: False for a node id under which only events were filed.

    """

    def __init__(self, session: RaySession, parts: FollowParts, *, with_logs: bool = True) -> None:
        settings = parts.settings
        self.session = session
        self.pair: NodePair = (session.session_name, session.node_id)
        self._parts = parts
        self._marker_lock = threading.Lock()
        self._started = self._over = False
        self.shipping = SessionShipping(
            ShippingParts(
                ref=settings.ref(session.session_name),
                session=session,
                role=settings.role.lower(),
                collector_version=parts.version,
                journal=parts.journal,
                shipper=parts.shipper,
                state_dir=settings.data_dir / "shipping",
                counted=partial(parts.ledger.take, *self.pair),
                collect_logs=settings.collect_logs and with_logs,
                metrics=parts.shipping_metrics,
                errors=parts.metrics.loop_errors,
            )
        )
        self._markers = SessionMarkers(
            parts.shipper.backend,
            settings.ref(session.session_name),
            node_id=session.node_id,
            is_head=settings.is_head,
            version=parts.version,
        )

    def start(self) -> None:
        """Say in storage that the session exists, and begin to ship it."""
        self._parts.shipper.submit("marker", self._write_start, urgency=Urgency.SMALL)
        self.shipping.start()

    def _write_start(self) -> None:
        """Not after the end, though storage may have been away until then."""
        with self._marker_lock:
            if not self._over:
                self._markers.write_start()
                self._started = True

    async def finish(
        self,
        reason: SessionEndReason,
        *,
        deadline_s: float,
        ended_ms: int | None = None,
        late: bool = False,
    ) -> bool:
        """Seal, ship the rest, end the manifest, then write the end marker.

        Args:
            reason: how it ended.
            deadline_s: on the monotonic clock.
            ended_ms: when it ended; by default when its logs last changed.
            late: it was over before this process followed it: an end that was told stands.

        Returns whether all of it is in storage.

        """
        parts = self._parts
        await parts.disk.call(partial(parts.journal.seal_session, self.session.session_name))
        seen_ms = await asyncio.to_thread(last_activity_ms, self.session) or 0
        left_s = max(0.0, deadline_s - time.monotonic())
        ship_until_s = deadline_s - min(END_TIME_S, left_s * END_SHARE)
        report = await in_daemon_thread(
            partial(self.shipping.finish, deadline_s=ship_until_s, ended=True), name="finish"
        )
        now_ms = time.time_ns() // 1_000_000
        when_ms = ended_ms or min(last_activity_ms(self.session) or now_ms, now_ms)
        marked = await self._mark_end(
            partial(self._write_end, reason, when_ms, late=late), deadline_s=deadline_s
        )
        parts.metrics.sessions_finished.labels(reason.value).inc()
        self._log_finished(reason, report)
        if report.complete and marked:
            remember = partial(remember_finished, activity_ms=seen_ms)
            await asyncio.to_thread(remember, parts.settings.data_dir, self.pair)
        return report.complete and marked

    def _log_finished(self, reason: SessionEndReason, report: FinishReport) -> None:
        log.info(
            "session finished",
            extra={
                "session": self.session.session_name,
                "node_id": self.session.node_id,
                "reason": reason.value,
                "complete": report.complete,
                "missing_logs": report.missing_logs,
                "missing_log_bytes": report.missing_log_bytes,
                "unshipped_events": report.unshipped_events,
            },
        )

    def _write_end(self, reason: SessionEndReason, when_ms: int, *, late: bool) -> None:
        with self._marker_lock:
            self._over = True
            if not self._started:
                self._markers.ensure_start()
            self._markers.write_end(reason, when_ms, keep=late)

    async def _mark_end(self, work: Callable[[], None], *, deadline_s: float) -> bool:
        future = self._parts.shipper.submit("marker", work, urgency=Urgency.SMALL)
        try:
            async with asyncio.timeout(max(0.5, deadline_s - time.monotonic())):
                await asyncio.wrap_future(future)
        except Exception as error:
            fields = {"session": self.session.session_name, "error": repr(error)}
            log.warning("end marker not written", extra=fields)
            return False
        return True
