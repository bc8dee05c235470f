"""A dashboard that answers what a test says, and a poller of it on a pushed clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from collector.dashboard.client import DashboardCredentials
from collector.dashboard.kept_answers import Snapshot, SnapshotFolder
from collector.dashboard.polling import Snapshots, session_folder
from collector.metrics import LoopErrors
from storage import endpoints
from tests.collector.shipping.shipping_kit import SESSION

HEAD = "ab" * 28
DATASETS = "/api/data/datasets/02000000"


@dataclass
class Dashboard:
    """A dashboard whose answers a test sets; every path not set answers 404."""

    answers: dict[str, Any] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    delay_s: dict[str, float] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    raw: dict[str, bytes] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    url: str = ""
    pollers: list[Snapshots] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def handle(self, request: web.Request) -> web.Response:
        name = request.raw_path
        self.asked.append(name)
        self.headers = dict(request.headers)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.delay_s.get(name, 0))
        finally:
            self.at_once -= 1
        if name in self.texts:
            return web.Response(text=self.texts[name])
        if name in self.raw:
            return web.Response(body=self.raw[name], content_type="application/json")
        if name not in self.answers:
            return web.json_response({}, status=404)
        return web.json_response(self.answers[name], status=self.status.get(name, 200))

    def bodies(self, *names: str) -> dict[str, bytes]:
        """What it answers, byte by byte."""
        texts = {name: text.encode() for name, text in self.texts.items()}
        return {name: (self.raw | texts)[name] for name in names}


def nodes(state: str) -> dict[str, Any]:
    row = {"node_id": HEAD, "state": state, "is_head_node": True}
    return {"result": True, "data": {"result": {"result": [row]}}}


def summary(*, stats: bool = True) -> dict[str, Any]:
    node: dict[str, Any] = {"raylet": {"nodeId": HEAD, "state": "ALIVE"}}
    return {"result": True, "data": {"summary": [{**node, "hostname": "h"} if stats else node]}}


def actors(**rows: dict[str, Any]) -> dict[str, Any]:
    return {"result": True, "data": {"actors": rows}}


@asynccontextmanager
async def dashboard() -> AsyncIterator[Dashboard]:
    """A dashboard on a free port, with a living head and one job."""
    board = Dashboard(
        answers={
            "/cluster_id": {"result": True, "data": {"clusterId": "c1"}},
            endpoints.NODES: nodes("ALIVE"),
            endpoints.NODE_SUMMARY: summary(),
            endpoints.JOBS: [{"job_id": "02000000", "status": "RUNNING"}],
            endpoints.ACTOR_TABLE: actors(a={"name": "mine", "state": "ALIVE"}),
            "/timezone": {"offset": "+00:00", "value": "UTC"},
            f"/nodes/{HEAD}": {"result": True, "data": {"detail": {"hostname": "h"}}},
        }
    )
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", board.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    board.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield board
    finally:
        for snapshots in board.pollers:
            await snapshots.close()
        await runner.cleanup()


@dataclass
class Poller:
    """Snapshots on a pushed clock, and what they hand over."""

    snapshots: Snapshots
    shipped: list[Snapshot]
    clock: list[float]
    folder: SnapshotFolder
    errors: LoopErrors

    async def rounds(self, count: int = 1, *, step_s: float = 61.0) -> None:
        for _ in range(count):
            self.clock[0] += step_s
            await self.snapshots._round()

    def kept(self, name: str) -> Any:
        envelope = self.folder.read(name)
        return None if envelope is None else json.loads(bytes(envelope.body))

    def names(self) -> set[str]:
        return {one.name for one in self.shipped}


def poller(tmp_path: Path, board: Dashboard, **more: Any) -> Poller:
    shipped: list[Snapshot] = []
    clock = [1000.0]
    errors = LoopErrors()
    snapshots = Snapshots(
        dashboard_url=board.url,
        credentials=more.pop("credentials", DashboardCredentials()),
        directory=tmp_path / "snapshots",
        session_name=SESSION,
        node_id=HEAD,
        sink=shipped.append,
        additional=more.pop("additional", ()),
        errors=errors,
        monotonic=lambda: clock[0],
        now_ms=lambda: int(clock[0] * 1000),
    )
    board.pollers.append(snapshots)
    folder = session_folder(tmp_path / "snapshots" / SESSION)
    return Poller(snapshots, shipped, clock, folder, errors)


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine to its end, within ten seconds."""

    async def limited() -> None:
        async with asyncio.timeout(10):
            await test()

    asyncio.run(limited())
