"""Puts the sources of session and node id in order: option, port files, hook files, dashboard."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from collector.dashboard.client import DashboardClient
from collector.dashboard.node_list import ask_node_id
from collector.ray_session import (
    NodeIdSource,
    RaySession,
    latest_session,
    local_node_id,
    session_of,
)
from collector.settings import Settings

log = logging.getLogger(__name__)

ASK_AFTER_S = 5.0
"""Port files come within a second of the raylet; the dashboard is asked after this."""
ASK_EVERY_S = 5.0


class Discovery:
    """Finds the session that runs now, and this node's id in it.

    Args:
        settings: where to look.
        client: asks the dashboard that knows all nodes.
        monotonic: clock.

    """

    def __init__(
        self,
        settings: Settings,
        *,
        client: DashboardClient,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._client = client
        self._monotonic = monotonic
        self._found: RaySession | None = None
        self._name = ""
        self._since_s = 0.0
        self._asked_s = float("-inf")

    async def look(self) -> RaySession | None:
        """The session as things stand; None when session or node id are not known yet.

        While Ray replaces its link, the session found before stays.
        """
        name = await asyncio.to_thread(latest_session, self._settings.tmp_root)
        if name is None:
            return self._found
        if name != self._name:
            self._name, self._since_s = name, self._monotonic()
        node = await self._node_id(name)
        if node is None:
            same = self._found is not None and self._found.session_name == name
            return self._found if same else None
        node_id, source = node
        session = session_of(self._settings.tmp_root, name, node_id)
        if session != self._found:
            self._found = session
            fields = {"session": name, "node_id": node_id, "source": source.value}
            log.info("session found", extra=fields)
        return session

    async def _node_id(self, name: str) -> tuple[str, NodeIdSource] | None:
        settings = self._settings
        if settings.ray_node_id:
            return settings.ray_node_id, NodeIdSource.OPTION
        local = await asyncio.to_thread(
            local_node_id, name, settings.tmp_root, is_head=settings.is_head
        )
        if local is not None:
            return local
        if self._found is not None and self._found.session_name == name:
            return None
        now_s = self._monotonic()
        too_soon = now_s - self._since_s < ASK_AFTER_S or now_s - self._asked_s < ASK_EVERY_S
        if too_soon or not settings.pod_ip:
            return None
        self._asked_s = now_s
        node_id = await ask_node_id(self._client, pod_ip=settings.pod_ip, is_head=settings.is_head)
        return (node_id, NodeIdSource.DASHBOARD) if node_id else None
