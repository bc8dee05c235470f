"""Finishes sessions that are over: those before the one that runs now.

Such are sessions of an earlier Ray in the same pod, what an earlier process of the collector
did not ship to the end, and events that come for a session after its end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from collector.following import FollowedSession, FollowParts, NodePair, forget_finished, is_finished
from collector.journal.recovery import PENDING_NODE
from collector.markers import EndReason
from collector.sessions import node_id_of_port_files, old_sessions, session_of

log = logging.getLogger(__name__)

EVERY_S = 10.0
AGAIN_AFTER_S = 60.0
PATIENCE_S = 24 * 3600.0
"""While the collector runs on, a session is tried to be finished as long as it takes."""


class Leftovers:
    """Finds sessions that are over and not finished, and finishes them one after the other.

    Args:
        parts: what a followed session works with.
        current: the session that runs now, if it is known.
        ship_snapshots: brings the dashboard answers that an earlier process left to a
            followed session; called before it is finished.

    """

    def __init__(
        self,
        parts: FollowParts,
        *,
        current: Callable[[], NodePair | None],
        ship_snapshots: Callable[[FollowedSession], None],
    ) -> None:
        self._parts = parts
        self._current = current
        self._ship_snapshots = ship_snapshots
        self._busy: set[NodePair] = set()
        self._not_before_s: dict[NodePair, float] = {}

    async def look(self) -> None:
        """Finish what is over. Nothing is known to be over before a newer session is found."""
        current = self._current()
        if current is None:
            return
        now_s = time.monotonic()
        for pair in await self._pairs(lambda session: session < current[0]):
            if self._not_before_s.get(pair, now_s) <= now_s:
                await self._finish_left(pair, deadline_s=now_s + PATIENCE_S)

    async def drain(self, *, deadline_s: float) -> None:
        """Finish all that is not finished: the collector stops, nothing will be newer."""
        for pair in await self._pairs(lambda _: True):
            if time.monotonic() < deadline_s:
                await self._finish_left(pair, deadline_s=deadline_s)
            else:
                log.warning("left for the next start", extra={"session": pair[0]})

    async def finish(
        self,
        followed: FollowedSession,
        reason: EndReason,
        *,
        deadline_s: float,
        ended_ms: int | None = None,
        late: bool = False,
    ) -> None:
        """Finish a followed session; one at a time per session and node."""
        pair = followed.pair
        self._busy.add(pair)
        try:
            complete = await followed.finish(
                reason, deadline_s=deadline_s, ended_ms=ended_ms, late=late
            )
        finally:
            self._busy.discard(pair)
        if not complete:
            self._not_before_s[pair] = time.monotonic() + AGAIN_AFTER_S

    async def _finish_left(self, pair: NodePair, *, deadline_s: float) -> None:
        own = await asyncio.to_thread(self._node_id, pair[0])
        session = session_of(self._parts.settings.tmp_root, *pair)
        followed = FollowedSession(session, self._parts, with_logs=own in (None, pair[1]))
        self._ship_snapshots(followed)
        await self.finish(followed, EndReason.SESSION_CHANGED, deadline_s=deadline_s, late=True)

    async def _pairs(self, is_over: Callable[[str], bool]) -> list[NodePair]:
        """The (session, node) pairs that are over, not followed, and have something to ship."""
        await self._adopt()
        with_events = {pair for pair in self._parts.journal.sessions() if pair[1] != PENDING_NODE}
        current = self._current()
        waiting = with_events | await asyncio.to_thread(self._old_on_disk, current)
        waiting -= self._busy | {current or ("", "")}
        for pair in with_events & waiting:
            forget_finished(self._parts.settings.data_dir, pair)
        return sorted(pair for pair in waiting if is_over(pair[0]))

    async def _adopt(self) -> None:
        """Give events without a node id to the node that their session's files name."""
        for session, node_id in self._parts.journal.sessions():
            if node_id != PENDING_NODE:
                continue
            own = await asyncio.to_thread(self._node_id, session)
            if own is not None:
                work = partial(self._parts.journal.adopt, session, own)
                await self._parts.disk.call(work)

    def _old_on_disk(self, current: NodePair | None) -> set[NodePair]:
        settings = self._parts.settings
        if current is None or not settings.collect_logs:
            return set()
        pairs: set[NodePair] = set()
        for session in old_sessions(settings.tmp_root, current[0]):
            node_id = self._node_id(session)
            if node_id is not None and not is_finished(settings.data_dir, (session, node_id)):
                pairs.add((session, node_id))
        return pairs

    def _node_id(self, session: str) -> str | None:
        settings = self._parts.settings
        return node_id_of_port_files(settings.tmp_root / session, is_head=settings.is_head)
