"""Polling a dashboard: what reaches the disk and the sink, and what a dying cluster cannot spoil."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from collector import snapshots as module
from collector.dashboard_client import MAX_BODY_BYTES, CredentialsError, DashboardCredentials
from collector.endpoints import ACTORS, JOBS, NODE_LIST, NODES, SERVE
from collector.snapshot_files import Snapshot, SnapshotFolder, put_snapshot
from collector.snapshots import Snapshots, session_folder, ship_leftover_snapshots
from storage.backend import read_all
from storage.layout import endpoint_key, snapshot_key
from storage.local import LocalBackend
from storage.wire import decode_snapshot
from tests.collector.shipping_kit import REF, SESSION

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
    url: str = ""
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
        if name in self.raw:
            return web.Response(body=self.raw[name], content_type="application/json")
        if name not in self.answers:
            return web.json_response({}, status=404)
        return web.json_response(self.answers[name], status=self.status.get(name, 200))


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
            NODE_LIST: nodes("ALIVE"),
            NODES: summary(),
            JOBS: [{"job_id": "02000000", "status": "RUNNING"}],
            ACTORS: actors(a={"name": "mine", "state": "ALIVE"}),
            "/timezone": {"offset": "+00:00", "value": "UTC"},
            f"/nodes/{HEAD}": {"result": True, "data": {"detail": {"hostname": "h"}}},
        }
    )
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", board.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    board.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield board
    finally:
        await runner.cleanup()


@dataclass
class Poller:
    """Snapshots on a pushed clock, and what they hand over."""

    snapshots: Snapshots
    shipped: list[Snapshot]
    clock: list[float]
    folder: SnapshotFolder

    async def rounds(self, count: int = 1, *, step_s: float = 61.0) -> None:
        for _ in range(count):
            self.clock[0] += step_s
            await self.snapshots._round()

    def kept(self, name: str) -> Any:
        envelope = self.folder.read(name)
        return None if envelope is None else json.loads(bytes(envelope.body))

    def names(self) -> set[str]:
        return {one.name for one in self.shipped}


def poller(tmp_path: Path, url: str, **more: Any) -> Poller:
    shipped: list[Snapshot] = []
    clock = [1000.0]
    snapshots = Snapshots(
        dashboard_url=url,
        credentials=more.pop("credentials", DashboardCredentials()),
        directory=tmp_path / "snapshots",
        session_name=SESSION,
        node_id=HEAD,
        sink=shipped.append,
        monotonic=lambda: clock[0],
        now_ms=lambda: int(clock[0] * 1000),
    )
    return Poller(snapshots, shipped, clock, session_folder(tmp_path / "snapshots" / SESSION))


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine to its end, within ten seconds."""

    async def limited() -> None:
        async with asyncio.timeout(10):
            await test()

    asyncio.run(limited())


def test_first_round_keeps_and_ships_what_there_is(tmp_path: Path) -> None:
    """A session of seconds has data: everything at once, in envelopes that tell the name."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board.url)
            await poll.rounds(2)
            assert poll.kept(JOBS) == board.answers[JOBS]
            assert poll.kept("/timezone") == {"offset": "+00:00", "value": "UTC"}
            assert {JOBS, NODES, ACTORS, NODE_LIST, "/timezone", "/cluster_id"} <= poll.names()
            assert f"/nodes/{HEAD}" in poll.names()
            assert board.most_at_once == 1, "one request at a time"
            assert board.asked.count("/timezone") == 1, "once is enough"
            assert SERVE not in board.asked
            await poll.snapshots.close()

    run(test)


def test_unchanged_answer_is_not_shipped_again(tmp_path: Path) -> None:
    """Nor one where only clocks move, within five minutes; a real change goes after a minute."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board.url)
            await poll.rounds(1)
            poll.shipped.clear()
            board.answers[NODES]["data"]["summary"][0]["now"] = 5
            await poll.rounds(2)
            assert NODES not in poll.names()
            assert poll.kept(NODES)["data"]["summary"][0]["now"] == 5, "the disk has it at once"
            board.answers[JOBS] = [{"job_id": "02000000", "status": "SUCCEEDED"}]
            await poll.rounds(1, step_s=11)
            await poll.rounds(1, step_s=50)
            assert [one.name for one in poll.shipped] == [JOBS]
            await poll.rounds(4)
            assert NODES in poll.names()
            await poll.snapshots.close()

    run(test)


def test_round_of_a_dying_cluster_is_thrown_away(tmp_path: Path) -> None:
    """GCS outlives the raylet by half a second and calls everything dead: not what anybody saw."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board.url)
            await poll.rounds(1)
            board.answers[ACTORS] = actors(a={"name": "mine", "state": "DEAD"})
            board.answers[NODE_LIST] = nodes("DEAD")
            await poll.rounds(1)
            await poll.snapshots.final_poll()
            assert poll.kept(ACTORS)["data"]["actors"]["a"]["state"] == "ALIVE"
            assert poll.kept(NODE_LIST) == nodes("ALIVE")
            await poll.snapshots.close()

    run(test)


def test_answer_of_a_dying_cluster_is_better_than_none(tmp_path: Path) -> None:
    """A session so short that no earlier round was there."""

    async def test() -> None:
        async with dashboard() as board:
            board.answers[NODE_LIST] = nodes("DEAD")
            poll = poller(tmp_path, board.url)
            await poll.snapshots.final_poll()
            assert poll.kept(JOBS) == board.answers[JOBS]
            assert JOBS in poll.names()
            await poll.snapshots.close()

    run(test)


def test_final_poll_is_quick_and_ships_everything(tmp_path: Path) -> None:
    """Side by side, a second each; a slow endpoint costs none of the others, nor the last one kept."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board.url)
            await poll.rounds(1)
            poll.shipped.clear()
            board.answers[JOBS] = [{"job_id": "02000000", "status": "STOPPED"}]
            board.answers[NODES]["data"]["summary"][0]["now"] = 7
            board.delay_s[ACTORS] = 30
            begin = time.monotonic()
            await poll.snapshots.final_poll(budget_s=3)
            assert time.monotonic() - begin < 2.5
            assert {JOBS, NODES} <= poll.names()
            assert poll.kept(JOBS)[0]["status"] == "STOPPED"
            assert poll.kept(ACTORS) == board.answers[ACTORS]
            assert board.most_at_once > 5
            await poll.snapshots.close()

    run(test)


def test_final_poll_with_the_dashboard_gone_ships_the_last_answers(tmp_path: Path) -> None:
    """What was not due for storage yet goes now."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board.url)
            await poll.rounds(1)
            poll.shipped.clear()
            board.answers[JOBS] = [{"job_id": "02000000", "status": "SUCCEEDED"}]
            await poll.rounds(1, step_s=11)
            assert poll.shipped == []
        begin = time.monotonic()
        await poll.snapshots.final_poll()
        assert time.monotonic() - begin < 2.5
        assert poll.names() == {JOBS}
        await poll.snapshots.close()

    run(test)


def test_dashboard_of_another_session_is_not_believed(tmp_path: Path) -> None:
    """After a restart of Ray the same address answers for the next session."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board.url)
            await poll.rounds(1)
            board.answers["/cluster_id"] = {"result": True, "data": {"clusterId": "c2"}}
            board.answers[JOBS] = [{"job_id": "09000000", "status": "RUNNING"}]
            await poll.rounds(2)
            assert poll.kept(JOBS) == [{"job_id": "02000000", "status": "RUNNING"}]
            poll.snapshots.change_session(
                session_name="session_next", node_id=HEAD, sink=poll.shipped.append
            )
            board.asked.clear()
            await poll.rounds(1)
            assert "/timezone" in board.asked, "once per session"
            folder = session_folder(tmp_path / "snapshots" / "session_next")
            envelope = folder.read(JOBS)
            assert envelope is not None
            assert json.loads(bytes(envelope.body))[0]["job_id"] == "09000000"
            await poll.snapshots.close()

    run(test)


def test_bad_answers_do_not_replace_good_ones(tmp_path: Path) -> None:
    """500, result false, no JSON, too large: the last good one stays."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board.url)
            await poll.rounds(1)
            board.status[JOBS] = 500
            board.answers[ACTORS] = {"result": False, "data": {}}
            board.raw[NODES] = b"<html>"
            board.raw["/api/version"] = b"x" * (MAX_BODY_BYTES + 1)
            await poll.rounds(1)
            assert poll.kept(JOBS) == [{"job_id": "02000000", "status": "RUNNING"}]
            assert poll.kept(ACTORS)["result"] is True
            assert poll.kept(NODES) == summary()
            assert poll.kept("/api/version") is None
            await poll.snapshots.close()

    run(test)


def test_serve_and_datasets_are_followed_when_used(tmp_path: Path) -> None:
    """Serve's end does not empty it; datasets of an ended job are kept once more, then left alone."""

    async def test() -> None:
        async with dashboard() as board:
            board.answers[ACTORS] = actors(
                a={"name": "SERVE_CONTROLLER_ACTOR", "state": "ALIVE"},
                b={"name": "datasets_stats_actor", "state": "ALIVE"},
            )
            board.answers[SERVE] = {"applications": {"app": {"status": "RUNNING"}}}
            board.answers[DATASETS] = {"datasets": [{"dataset": "d", "state": "RUNNING"}]}
            poll = poller(tmp_path, board.url)
            await poll.rounds(2)
            assert {SERVE, DATASETS} <= poll.names()
            board.answers[SERVE] = {"applications": {}}
            board.answers[DATASETS] = {"datasets": [{"dataset": "d", "state": "FINISHED"}]}
            board.answers[JOBS] = [{"job_id": "02000000", "status": "SUCCEEDED"}]
            await poll.rounds(2)
            assert poll.kept(SERVE)["applications"] != {}
            assert poll.kept(DATASETS)["datasets"][0]["state"] == "FINISHED"
            asked = board.asked.count(DATASETS)
            await poll.rounds(3)
            assert board.asked.count(DATASETS) == asked
            await poll.snapshots.final_poll()
            assert "app" in poll.kept(SERVE)["applications"] or board.asked.count(SERVE) > 3
            await poll.snapshots.close()

    run(test)


def test_costly_endpoint_is_asked_seldomer(tmp_path: Path) -> None:
    """The dashboard spends at most a twentieth of its time on one endpoint."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board.url)
            real = poll.snapshots._client.get

            async def slow(name: str, *, timeout_s: float) -> module.Answer:
                if name == JOBS:
                    poll.clock[0] += 3.0
                return await real(name, timeout_s=timeout_s)

            poll.snapshots._client.get = slow  # type: ignore[method-assign]
            await poll.rounds(1)
            await poll.rounds(5, step_s=10)
            assert board.asked.count(JOBS) == 1
            await poll.rounds(1)
            assert board.asked.count(JOBS) == 2
            await poll.snapshots.close()

    run(test)


def test_polling_begins_when_the_dashboard_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dashboard that is down is a quiet matter; soon after it answers there is data."""
    monkeypatch.setattr(module, "DOWN_PAUSE_S", 0.02)
    monkeypatch.setattr(module, "ROUND_S", 0.02)

    async def test() -> None:
        poll = poller(tmp_path, "http://127.0.0.1:1")
        task = asyncio.create_task(poll.snapshots.run())
        await asyncio.sleep(0.1)
        assert poll.shipped == []
        async with dashboard() as board:
            poll.snapshots._client._url = board.url
            while JOBS not in poll.names():
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert not task.done(), "the dashboard's end does not end the polling"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(test)


def test_killed_collector_leaves_what_the_next_one_ships(tmp_path: Path) -> None:
    """The last answers are on the disk; those that storage has are not shipped again."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board.url)
            await poll.rounds(1)
            (tmp_path / "store").mkdir()
            backend = LocalBackend(tmp_path / "store")
            for snapshot in poll.shipped:
                put_snapshot(backend, REF, snapshot)
            board.answers[JOBS] = [{"job_id": "02000000", "status": "SUCCEEDED"}]
            await poll.rounds(1, step_s=11)
            await poll.snapshots.close()
            left: list[Snapshot] = []
            assert ship_leftover_snapshots(tmp_path / "snapshots" / SESSION, left.append) > 0
            assert [one.name for one in left if one.name == JOBS] == [JOBS]
            assert "/timezone" not in [one.name for one in left]
            for snapshot in left:
                put_snapshot(backend, REF, snapshot)
            envelope = decode_snapshot(read_all(backend, snapshot_key(REF, JOBS), max_bytes=10**6))
            assert json.loads(bytes(envelope.body)) == board.answers[JOBS]
            assert (envelope.name, envelope.status) == (JOBS, 200)
            kept = read_all(backend, endpoint_key(REF, "/timezone"), max_bytes=10**6)
            assert json.loads(kept) == {"offset": "+00:00", "value": "UTC"}
            assert ship_leftover_snapshots(tmp_path / "snapshots" / SESSION, left.append) == 0

    run(test)


def test_restarted_collector_does_not_lose_a_full_answer(tmp_path: Path) -> None:
    """The next process compares with what is on the disk, not with nothing."""

    async def test() -> None:
        async with dashboard() as board:
            first = poller(tmp_path, board.url)
            await first.rounds(1)
            await first.snapshots.close()
            board.answers[JOBS] = []
            second = poller(tmp_path, board.url)
            await second.rounds(1)
            assert second.kept(JOBS) == [{"job_id": "02000000", "status": "RUNNING"}]
            await second.snapshots.close()

    run(test)


def test_token_is_sent_as_kuberay_does(tmp_path: Path) -> None:
    """A secret's token, or a file that is read again for each request."""
    token = tmp_path / "token"
    token.write_text("one\n")

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board.url, credentials=DashboardCredentials(token_path=token))
            await poll.rounds(1)
            assert board.headers["x-ray-authorization"] == "Bearer one"
            token.write_text("two\n")
            await poll.rounds(1)
            assert board.headers["x-ray-authorization"] == "Bearer two"
            await poll.snapshots.close()

    run(test)


def test_credentials_come_from_the_environment() -> None:
    """KubeRay's variables, in its order; token mode without a token is an error at start."""
    from_env = DashboardCredentials.from_env
    assert from_env({}) == DashboardCredentials()
    assert from_env({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t"}).headers() == {
        "x-ray-authorization": "Bearer t"
    }
    assert from_env({"RAY_ENABLE_K8S_TOKEN_AUTH": "true", "RAY_AUTH_TOKEN": "t"}).token_path
    assert from_env({"RAY_AUTH_TOKEN_PATH": "/x"}).token_path == Path("/x")
    assert from_env({"RAY_AUTH_TOKEN_PATH": "/nowhere"}).headers() == {}
    with pytest.raises(CredentialsError):
        from_env({"RAY_AUTH_MODE": "token"})


def test_refused_credentials_are_not_a_storm(tmp_path: Path) -> None:
    """401: one try in half a minute."""

    async def test() -> None:
        async with dashboard() as board:
            board.status["/cluster_id"] = 401
            poll = poller(tmp_path, board.url)
            assert await poll.snapshots._round() == module.DENIED_PAUSE_S
            assert board.asked == ["/cluster_id"]
            await poll.snapshots.close()

    run(test)
