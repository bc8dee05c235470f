"""Finishes sessions: those that are over, beside the one that runs.

Such are the session that Ray's restart just replaced, sessions of an earlier Ray in the same
pod, what an earlier process of the collector did not ship to the end, and events or log lines
that come for a session after its end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Protocol

from collector.journal.recovery import PENDING_NODE
from collector.lifecycle.finished_marks import NodePair, forget_finished, is_finished
from collector.lifecycle.following import FollowedSession, FollowParts
from collector.metrics import BackgroundTask
from collector.ray_session import node_id_of_port_files, old_sessions, session_of
from collector.shipping.markers import SessionEndReason

log = logging.getLogger(__name__)

EVERY_S = 10.0
AGAIN_AFTER_S = 60.0
PATIENCE_S = 24 * 3600.0
"""While the collector runs on, a session is tried to be finished as long as it takes."""


class FollowerView(Protocol):
    """What is being followed, as far as the leftovers must know."""

    @property
    def pair(self) -> NodePair | None:
        """The session and node that are followed."""

    @property
    def newest(self) -> str | None:
        """The newest session known, followed or ended."""


class Leftovers:
    """Finds sessions that are over and not finished, and finishes them one after the other.

    One (session, node) is never finished twice at the same time.

    Args:
        parts: what a followed session works with.
        view: what is followed.
        ship_snapshots: brings the dashboard answers that an earlier process left to a
            followed session; called before it is finished.

    """

    def __init__(
        self,
        parts: FollowParts,
        *,
        view: FollowerView,
        ship_snapshots: Callable[[FollowedSession], None],
    ) -> None:
        self._parts = parts
        self._view = view
        self._ship_snapshots = ship_snapshots
        self._running: dict[NodePair, asyncio.Task[None]] = {}
        self._not_before_s: dict[NodePair, float] = {}

    def is_running(self, pair: NodePair) -> bool:
        """Whether this session and node are being finished."""
        return pair in self._running

    @property
    def running(self) -> Collection[asyncio.Task[None]]:
        """What is being finished."""
        return list(self._running.values())

    async def look(self) -> None:
        """Finish what is over. Nothing is known to be over before a newer session is found."""
        newest = self._view.newest
        if newest is None:
            return
        followed = self._view.pair
        now_s = time.monotonic()
        for pair in await self._pairs():
            over = pair[0] < newest or (pair[0] == newest and followed is None)
            if over and self._not_before_s.get(pair, now_s) <= now_s:
                await asyncio.shield(self._finish_left(pair, deadline_s=now_s + PATIENCE_S))

    async def drain(self, *, deadline_s: float) -> bool:
        """Finish all that is not finished: the collector stops, nothing will be newer.

        Returns whether there was anything.
        """
        pairs = await self._pairs()
        for pair in pairs:
            if time.monotonic() < deadline_s:
                await self._finish_left(pair, deadline_s=deadline_s)
            else:
                log.warning("left for the next start", extra={"session": pair[0]})
        return bool(pairs)

    def finish(
        self,
        followed: FollowedSession,
        reason: SessionEndReason,
        *,
        deadline_s: float,
        ended_ms: int | None = None,
        late: bool = False,
    ) -> asyncio.Task[None]:
        """Begin to finish a followed session."""
        pair = followed.pair

        async def work() -> None:
            try:
                complete = await followed.finish(
                    reason, deadline_s=deadline_s, ended_ms=ended_ms, late=late
                )
                if late or not complete:
                    self._not_before_s[pair] = time.monotonic() + AGAIN_AFTER_S
            except Exception:
                self._parts.metrics.loop_errors.count(BackgroundTask.FINISH)
                self._not_before_s[pair] = time.monotonic() + AGAIN_AFTER_S
                log.exception("session not finished", extra={"session": pair[0]})
            finally:
                del self._running[pair]

        task = asyncio.create_task(work())
        self._running[pair] = task
        return task

    def _finish_left(self, pair: NodePair, *, deadline_s: float) -> asyncio.Task[None]:
        own = self._node_id(pair[0])
        session = session_of(self._parts.settings.tmp_root, *pair)
        left = FollowedSession(session, self._parts, with_logs=own in (None, pair[1]))
        self._ship_snapshots(left)
        return self.finish(left, SessionEndReason.SESSION_CHANGED, deadline_s=deadline_s, late=True)

    async def _pairs(self) -> list[NodePair]:
        """The (session, node) pairs that are not followed, and have something to ship."""
        await self._adopt()
        with_events = {pair for pair in self._parts.journal.sessions() if pair[1] != PENDING_NODE}
        waiting = with_events | await asyncio.to_thread(self._on_disk)
        followed = self._view.pair
        waiting -= self._running.keys() | ({followed} if followed else set())
        for pair in with_events & waiting:
            forget_finished(self._parts.settings.data_dir, pair)
        return sorted(waiting)

    async def _adopt(self) -> None:
        """Give events without a node id to the node that their session's files name."""
        for session, node_id in self._parts.journal.sessions():
            if node_id != PENDING_NODE:
                continue
            own = await asyncio.to_thread(self._node_id, session)
            if own is None:
                log.warning("events wait for their node id", extra={"session": session})
                continue
            await self._parts.disk.call(partial(self._parts.journal.adopt, session, own))

    def _on_disk(self) -> set[NodePair]:
        """Session directories whose logs are not finished."""
        settings, newest = self._parts.settings, self._view.newest
        if newest is None or not settings.collect_logs:
            return set()
        pairs: set[NodePair] = set()
        for name in [*old_sessions(settings.tmp_root, newest), newest]:
            node_id = self._node_id(name)
            if node_id is None:
                continue
            session = session_of(settings.tmp_root, name, node_id)
            if not is_finished(settings.data_dir, session):
                pairs.add((name, node_id))
        return pairs

    def _node_id(self, session: str) -> str | None:
        settings = self._parts.settings
        return node_id_of_port_files(settings.tmp_root / session, is_head=settings.is_head)
