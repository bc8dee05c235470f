"""Snapshots across restarts of Ray, of the dashboard and of the collector; and who may ask."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path

import pytest

from collector.dashboard import polling as module
from collector.dashboard.client import (
    CredentialsError,
    DashboardCredentials,
)
from collector.dashboard.kept_answers import Snapshot, put_snapshot
from collector.dashboard.polling import session_folder, ship_leftover_snapshots
from storage import endpoints
from storage.backend import read_all
from storage.layout import endpoint_key, snapshot_key
from storage.local import LocalBackend
from storage.wire import decode_snapshot
from tests.collector.dashboard.dashboard_double import (
    HEAD,
    Dashboard,
    dashboard,
    poller,
    run,
)
from tests.collector.shipping.shipping_kit import REF, SESSION


def test_final_poll_with_the_dashboard_gone_ships_the_last_answers(tmp_path: Path) -> None:
    """What was not due for storage yet goes now."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board)
            await poll.rounds(2, step_s=11)
            poll.shipped.clear()
            board.answers[endpoints.JOBS] = [{"job_id": "02000000", "status": "SUCCEEDED"}]
            await poll.rounds(1, step_s=11)
            assert poll.shipped == []
        begin = time.monotonic()
        await poll.snapshots.final_poll()
        assert time.monotonic() - begin < 2.5
        assert poll.names() == {endpoints.JOBS}
        await poll.snapshots.close()

    run(test)


def test_dashboard_of_another_session_is_not_believed(tmp_path: Path) -> None:
    """After a restart of Ray the same address answers for the next session."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board)
            await poll.rounds(1)
            board.answers["/cluster_id"] = {"result": True, "data": {"clusterId": "c2"}}
            board.answers[endpoints.JOBS] = [{"job_id": "09000000", "status": "RUNNING"}]
            await poll.rounds(2)
            assert poll.kept(endpoints.JOBS) == [{"job_id": "02000000", "status": "RUNNING"}]
            poll.snapshots.change_session(
                session_name="session_next", node_id=HEAD, sink=poll.shipped.append
            )
            board.asked.clear()
            await poll.rounds(1)
            assert "/timezone" in board.asked, "once per session"
            folder = session_folder(tmp_path / "snapshots" / "session_next")
            envelope = folder.read(endpoints.JOBS)
            assert envelope is not None
            assert json.loads(bytes(envelope.body))[0]["job_id"] == "09000000"

    run(test)


def test_polling_begins_when_the_dashboard_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dashboard that is down is a quiet matter; soon after it answers there is data."""
    monkeypatch.setattr(module, "DOWN_PAUSE_S", 0.02)
    monkeypatch.setattr(module, "ROUND_S", 0.02)

    async def test() -> None:
        poll = poller(tmp_path, Dashboard(url="http://127.0.0.1:1"))
        task = asyncio.create_task(poll.snapshots.run())
        await asyncio.sleep(0.1)
        assert poll.shipped == []
        async with dashboard() as board:
            poll.snapshots._client._url = board.url
            while endpoints.JOBS not in poll.names():
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
            poll = poller(tmp_path, board)
            await poll.rounds(1)
            (tmp_path / "store").mkdir()
            backend = LocalBackend(tmp_path / "store")
            for snapshot in poll.shipped:
                put_snapshot(backend, REF, snapshot)
            board.answers[endpoints.JOBS] = [{"job_id": "02000000", "status": "SUCCEEDED"}]
            await poll.rounds(1, step_s=11)
            left: list[Snapshot] = []
            assert ship_leftover_snapshots(tmp_path / "snapshots" / SESSION, left.append) > 0
            assert [one.name for one in left if one.name == endpoints.JOBS] == [endpoints.JOBS]
            assert "/timezone" not in [one.name for one in left]
            for snapshot in left:
                put_snapshot(backend, REF, snapshot)
            envelope = decode_snapshot(
                read_all(backend, snapshot_key(REF, endpoints.JOBS), max_bytes=10**6)
            )
            assert json.loads(bytes(envelope.body)) == board.answers[endpoints.JOBS]
            assert (envelope.name, envelope.status) == (endpoints.JOBS, 200)
            kept = read_all(backend, endpoint_key(REF, "/timezone"), max_bytes=10**6)
            assert json.loads(kept) == {"offset": "+00:00", "value": "UTC"}
            assert ship_leftover_snapshots(tmp_path / "snapshots" / SESSION, left.append) == 0

    run(test)


def test_restarted_collector_does_not_lose_a_full_answer(tmp_path: Path) -> None:
    """The next process compares with what is on the disk, not with nothing."""

    async def test() -> None:
        async with dashboard() as board:
            first = poller(tmp_path, board)
            await first.rounds(1)
            board.answers[endpoints.JOBS] = []
            second = poller(tmp_path, board)
            await second.rounds(1)
            assert second.kept(endpoints.JOBS) == [{"job_id": "02000000", "status": "RUNNING"}]

    run(test)


def test_token_is_sent_as_kuberay_does(tmp_path: Path) -> None:
    """A secret's token, or a file that is read again for each request."""
    token = tmp_path / "token"
    token.write_text("one\n")

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board, credentials=DashboardCredentials(token_path=token))
            await poll.rounds(1)
            assert board.headers["x-ray-authorization"] == "Bearer one"
            token.write_text("two\n")
            await poll.rounds(1)
            assert board.headers["x-ray-authorization"] == "Bearer two"

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
    with pytest.raises(FileNotFoundError):
        from_env({"RAY_AUTH_TOKEN_PATH": "/nowhere"}).headers()
    with pytest.raises(CredentialsError):
        from_env({"RAY_AUTH_MODE": "token"})


def test_a_token_that_cannot_be_read_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The dashboard is asked without, and told of again when it breaks again."""
    token = tmp_path / "token"

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board, credentials=DashboardCredentials(token_path=token))
            await poll.rounds(2)
            assert "x-ray-authorization" not in board.headers
            assert warnings(caplog) == ["dashboard token not readable"]
            token.write_text("one\n")
            await poll.rounds(1)
            assert board.headers["x-ray-authorization"] == "Bearer one"
            token.write_bytes(b"\xff")
            await poll.rounds(2)
            assert warnings(caplog) == ["dashboard token not readable"] * 2

    run(test)


def test_a_refused_login_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Per change: refused, accepted, refused again."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board)
            for status in (401, 401, 200, 403, 401):
                board.status["/cluster_id"] = status
                await poll.rounds(1)
            assert warnings(caplog) == ["dashboard not usable"] * 2
            faults = [vars(record)["fault"] for record in caplog.records]
            assert faults == ["denied", "denied"]

    run(test)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message for one in caplog.records if one.levelno >= logging.WARNING]


def test_refused_credentials_are_not_a_storm(tmp_path: Path) -> None:
    """401: one try in half a minute."""

    async def test() -> None:
        async with dashboard() as board:
            board.status["/cluster_id"] = 401
            poll = poller(tmp_path, board)
            assert await poll.snapshots._round() == module.DENIED_PAUSE_S
            assert board.asked == ["/cluster_id"]

    run(test)
