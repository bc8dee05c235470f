"""The head's snapshots of Ray's dashboard, as the lifecycle uses them."""

from __future__ import annotations

import asyncio
import logging

from collector.dashboard.metrics import DashboardMetrics
from collector.dashboard.polling import DashboardCredentials, Snapshots, ship_leftover_snapshots
from collector.lifecycle.following import FollowedSession
from collector.metrics import BackgroundTask, LoopErrors
from collector.settings import Settings

log = logging.getLogger(__name__)


class Dashboard:
    """Polls the dashboard for the session that is followed; on a worker it does nothing.

    Args:
        settings: where the dashboard is.
        credentials: how to authenticate there.
        metrics: what to count on.
        errors: where rounds that fail are counted.

    """

    def __init__(
        self,
        settings: Settings,
        *,
        credentials: DashboardCredentials,
        metrics: DashboardMetrics,
        errors: LoopErrors,
    ) -> None:
        self._settings = settings
        self._credentials = credentials
        self._metrics, self._errors = metrics, errors
        self._directory = settings.data_dir / "snapshots"
        self._wanted = settings.is_head and settings.collect_logs
        self._snapshots: Snapshots | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, followed: FollowedSession) -> None:
        """Take snapshots for this session from now on."""
        if not self._wanted:
            return
        session = followed.session
        sink = followed.shipping.put_snapshot
        if self._snapshots is not None:
            self._snapshots.change_session(
                session_name=session.session_name, node_id=session.node_id, sink=sink
            )
            return
        self._snapshots = Snapshots(
            dashboard_url=self._settings.dashboard_url,
            credentials=self._credentials,
            directory=self._directory,
            sink=sink,
            session_name=session.session_name,
            node_id=session.node_id,
            additional=self._settings.additional_endpoints,
            metrics=self._metrics,
            errors=self._errors,
        )
        self._task = asyncio.create_task(self._snapshots.run())

    def ship_left(self, followed: FollowedSession) -> None:
        """Hand over what an earlier process kept of this session and did not see stored."""
        if self._wanted:
            directory = self._directory / followed.session.session_name
            ship_leftover_snapshots(
                directory,
                followed.shipping.put_snapshot,
                additional=self._settings.additional_endpoints,
            )

    async def final_poll(self, budget_s: float) -> None:
        """Ask a last time, the most valuable first."""
        if self._snapshots is None:
            return
        try:
            await self._snapshots.final_poll(budget_s=budget_s)
        except Exception:
            self._errors.count(BackgroundTask.LAST_POLL)
            log.exception("last poll failed")

    async def close(self) -> None:
        """Stop polling."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
