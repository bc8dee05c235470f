"""Which session is followed: the newest one, from its raylet's start to its end.

The decisions are pure functions of what was seen; `SessionFollower` looks and acts.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from collector.intake.envelope import Event
from collector.journal.recovery import PENDING_NODE
from collector.lifecycle.dashboard_polling import Dashboard
from collector.lifecycle.discovery import Discovery
from collector.lifecycle.finished_marks import NodePair, forget_finished, was_finished
from collector.lifecycle.following import FollowedSession, FollowParts
from collector.lifecycle.leftovers import PATIENCE_S, Leftovers
from collector.ray_session import Raylet, RaySession, probe_raylet
from collector.shipping.markers import SessionEndReason

STARTING_S = 300.0
"""A raylet that was never seen alive is given so long."""
QUIET_S = 3.0
"""Ray writes logs up to 2.4 s after its SIGTERM; files quiet for this long are done."""


def is_worth_following(raylet: Raylet, *, finished: bool) -> bool:
    """Whether a session that is not followed yet should be.

    One that was finished is followed again only when its raylet lives: it came back.
    """
    return not finished or raylet is Raylet.UP


def has_ended(*, gone_s: float, quiet_s: float, patience_s: float, seen_alive: bool) -> bool:
    """Whether the followed session is over.

    Args:
        gone_s: how long its raylet has not answered.
        quiet_s: how long no log has changed.
        patience_s: how long a raylet may be gone.
        seen_alive: False while it may still be starting, which takes long on a busy node.

    """
    if not seen_alive:
        patience_s = max(patience_s, STARTING_S)
    return gone_s >= patience_s and quiet_s >= QUIET_S


class NodeNames:
    """Whose folder an event is filed in: this node's, once it is known; else the sender's."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def learn(self, pair: NodePair) -> None:
        """Note what id this node has in a session."""
        session, node_id = pair
        self._known[session] = node_id

    def of(self, event: Event) -> str:
        """The node that the event is filed under."""
        return self._known.get(event.session) or event.node_id or PENDING_NODE


class SessionFollower:
    """Looks for the session that runs, follows it, and has it finished when it is over.

    Args:
        parts: what a followed session works with.
        discovery: finds the session.
        dashboard: takes snapshots of what is followed.
        nodes: learns this node's ids.

    """

    def __init__(
        self, parts: FollowParts, *, discovery: Discovery, dashboard: Dashboard, nodes: NodeNames
    ) -> None:
        self._parts, self._discovery = parts, discovery
        self._dashboard, self._nodes = dashboard, nodes
        self.leftovers = Leftovers(parts, view=self, ship_snapshots=dashboard.ship_left)
        self.current: FollowedSession | None = None
        self.switched = asyncio.Event()
        """Set when another session is followed than before."""
        self.raylet_seen_s = time.monotonic()
        """When the followed session's raylet was last seen alive, on the monotonic clock."""
        self._raylet_seen_ms = 0
        """0 until it has been seen alive."""
        self._ended: NodePair | None = None

    @property
    def pair(self) -> NodePair | None:
        """Session and node that are followed."""
        return self.current.pair if self.current is not None else None

    @property
    def newest(self) -> str | None:
        """The newest session known, followed or ended."""
        if self.current is not None:
            return self.current.session.session_name
        return self._ended[0] if self._ended is not None else None

    async def look(self) -> None:
        """Look which session runs, and follow it."""
        metrics = self._parts.metrics
        session = await self._discovery.look()
        metrics.session_known.set(session is not None)
        if session is None:
            return
        raylet = await asyncio.to_thread(probe_raylet, session.session_dir)
        metrics.raylet_up.set(raylet is Raylet.UP)
        if self.pair != (session.session_name, session.node_id):
            await self._maybe_switch(session, raylet)
        if raylet is not Raylet.GONE:
            self.raylet_seen_s = time.monotonic()
            self._raylet_seen_ms = time.time_ns() // 1_000_000
        elif self.current is not None:
            self._maybe_end(self.current)
        if self._parts.journal.pressed and self.current is not None:
            self.current.shipping.press()

    def release(self) -> None:
        """The followed session was finished by somebody else: the drain."""
        followed, self.current = self.current, None
        if followed is not None:
            self._ended = followed.pair

    async def _maybe_switch(self, session: RaySession, raylet: Raylet) -> None:
        pair = (session.session_name, session.node_id)
        finished = self._ended == pair or was_finished(self._parts.settings.data_dir, pair)
        if not is_worth_following(raylet, finished=finished):
            self._ended = pair
            return
        if self.leftovers.is_running(pair):
            return  # its end is being written; it is followed again after that
        old, self.current = self.current, None
        if old is not None:
            self.leftovers.finish(
                old, SessionEndReason.SESSION_CHANGED, deadline_s=time.monotonic() + PATIENCE_S
            )
        await self._follow(session, pair)

    async def _follow(self, session: RaySession, pair: NodePair) -> None:
        parts = self._parts
        self._nodes.learn(pair)
        await parts.disk.call(partial(parts.journal.adopt, *pair))
        forget_finished(parts.settings.data_dir, pair)
        parts.metrics.session_changes.inc()
        followed = FollowedSession(session, parts)
        await asyncio.to_thread(self._dashboard.ship_left, followed)
        followed.start()
        self.current, self._ended = followed, None
        self.raylet_seen_s, self._raylet_seen_ms = time.monotonic(), 0
        self._dashboard.follow(followed)
        self.switched.set()

    def _maybe_end(self, followed: FollowedSession) -> None:
        over = has_ended(
            gone_s=time.monotonic() - self.raylet_seen_s,
            quiet_s=followed.shipping.quiet_s(),
            patience_s=self._parts.settings.ray_gone_after_s,
            seen_alive=self._raylet_seen_ms > 0,
        )
        if not over:
            return
        self.current, self._ended = None, followed.pair
        self.leftovers.finish(
            followed,
            SessionEndReason.RAY_GONE,
            deadline_s=time.monotonic() + PATIENCE_S,
            ended_ms=self._raylet_seen_ms or None,
        )
