"""Polling a dashboard: what reaches the disk and the sink, and what a dying cluster cannot spoil."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from collector.dashboard.client import (
    MAX_BODY_BYTES,
    Answer,
)
from storage import endpoints
from tests.collector.dashboard.dashboard_double import (
    DATASETS,
    HEAD,
    actors,
    dashboard,
    nodes,
    poller,
    run,
    summary,
)


def test_first_round_keeps_and_ships_what_there_is(tmp_path: Path) -> None:
    """A session of seconds has data: everything at once, in envelopes that tell the name."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board)
            await poll.rounds(2)
            assert poll.kept(endpoints.JOBS) == board.answers[endpoints.JOBS]
            assert poll.kept("/timezone") == {"offset": "+00:00", "value": "UTC"}
            assert {
                endpoints.JOBS,
                endpoints.NODE_SUMMARY,
                endpoints.ACTOR_TABLE,
                endpoints.NODES,
                "/timezone",
                "/cluster_id",
            } <= poll.names()
            assert f"/nodes/{HEAD}" in poll.names()
            assert board.most_at_once == 1, "one request at a time"
            assert board.asked.count("/timezone") == 1, "once is enough"
            assert endpoints.SERVE not in board.asked

    run(test)


def test_unchanged_answer_is_not_shipped_again(tmp_path: Path) -> None:
    """Nor one where only clocks move, within five minutes; a real change goes after a minute."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board)
            await poll.rounds(2)
            poll.shipped.clear()
            board.answers[endpoints.NODE_SUMMARY]["data"]["summary"][0]["now"] = 5
            await poll.rounds(2)
            assert endpoints.NODE_SUMMARY not in poll.names()
            assert poll.kept(endpoints.NODE_SUMMARY)["data"]["summary"][0]["now"] == 5, (
                "the disk has it at once"
            )
            board.answers[endpoints.JOBS] = [{"job_id": "02000000", "status": "SUCCEEDED"}]
            await poll.rounds(1, step_s=11)
            await poll.rounds(1, step_s=50)
            assert [one.name for one in poll.shipped] == [endpoints.JOBS]
            await poll.rounds(4)
            assert endpoints.NODE_SUMMARY in poll.names()

    run(test)


def test_round_of_a_dying_cluster_is_thrown_away(tmp_path: Path) -> None:
    """GCS outlives the raylet by half a second and calls everything dead: not what anybody saw."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board)
            await poll.rounds(1)
            board.answers[endpoints.ACTOR_TABLE] = actors(a={"name": "mine", "state": "DEAD"})
            board.answers[endpoints.NODES] = nodes("DEAD")
            await poll.rounds(1)
            await poll.snapshots.final_poll()
            assert poll.kept(endpoints.ACTOR_TABLE)["data"]["actors"]["a"]["state"] == "ALIVE"
            assert poll.kept(endpoints.NODES) == nodes("ALIVE")

    run(test)


def test_answer_of_a_dying_cluster_is_better_than_none(tmp_path: Path) -> None:
    """A session so short that no earlier round was there."""

    async def test() -> None:
        async with dashboard() as board:
            board.answers[endpoints.NODES] = nodes("DEAD")
            poll = poller(tmp_path, board)
            await poll.snapshots.final_poll()
            assert poll.kept(endpoints.JOBS) == board.answers[endpoints.JOBS]
            assert endpoints.JOBS in poll.names()

    run(test)


def test_final_poll_is_quick_and_ships_everything(tmp_path: Path) -> None:
    """Side by side, a second each; a slow endpoint costs none of the others, nor the last one kept."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board)
            await poll.rounds(2)
            poll.shipped.clear()
            board.answers[endpoints.JOBS] = [{"job_id": "02000000", "status": "STOPPED"}]
            board.answers[endpoints.NODE_SUMMARY]["data"]["summary"][0]["now"] = 7
            board.delay_s[endpoints.ACTOR_TABLE] = 30
            begin = time.monotonic()
            await poll.snapshots.final_poll(budget_s=3)
            assert time.monotonic() - begin < 2.5
            assert {endpoints.JOBS, endpoints.NODE_SUMMARY} <= poll.names()
            assert poll.kept(endpoints.JOBS)[0]["status"] == "STOPPED"
            assert poll.kept(endpoints.ACTOR_TABLE) == board.answers[endpoints.ACTOR_TABLE]
            assert board.most_at_once > 5

    run(test)


def test_bad_answers_do_not_replace_good_ones(tmp_path: Path) -> None:
    """500, result false, no JSON, too large: the last good one stays."""

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board)
            await poll.rounds(1)
            board.status[endpoints.JOBS] = 500
            board.answers[endpoints.ACTOR_TABLE] = {"result": False, "data": {}}
            board.raw[endpoints.NODE_SUMMARY] = b"<html>"
            board.raw["/api/version"] = b"x" * (MAX_BODY_BYTES + 1)
            await poll.rounds(1)
            assert poll.kept(endpoints.JOBS) == [{"job_id": "02000000", "status": "RUNNING"}]
            assert poll.kept(endpoints.ACTOR_TABLE)["result"] is True
            assert poll.kept(endpoints.NODE_SUMMARY) == summary()
            assert poll.kept("/api/version") is None

    run(test)


def test_serve_and_datasets_are_followed_when_used(tmp_path: Path) -> None:
    """Serve's end does not empty it; datasets of an ended job are kept once more, then left alone."""

    async def test() -> None:
        async with dashboard() as board:
            board.answers[endpoints.ACTOR_TABLE] = actors(
                a={"name": "SERVE_CONTROLLER_ACTOR", "state": "ALIVE"},
                b={"name": "datasets_stats_actor", "state": "ALIVE"},
            )
            board.answers[endpoints.SERVE] = {"applications": {"app": {"status": "RUNNING"}}}
            board.answers[DATASETS] = {"datasets": [{"dataset": "d", "state": "RUNNING"}]}
            poll = poller(tmp_path, board)
            await poll.rounds(2)
            assert {endpoints.SERVE, DATASETS} <= poll.names()
            board.answers[endpoints.SERVE] = {"applications": {}}
            board.answers[DATASETS] = {"datasets": [{"dataset": "d", "state": "FINISHED"}]}
            board.answers[endpoints.JOBS] = [{"job_id": "02000000", "status": "SUCCEEDED"}]
            await poll.rounds(2)
            assert poll.kept(endpoints.SERVE)["applications"] != {}
            assert poll.kept(DATASETS)["datasets"][0]["state"] == "FINISHED"
            asked = board.asked.count(DATASETS)
            await poll.rounds(3)
            assert board.asked.count(DATASETS) == asked
            await poll.snapshots.final_poll()
            assert (
                "app" in poll.kept(endpoints.SERVE)["applications"]
                or board.asked.count(endpoints.SERVE) > 3
            )

    run(test)


def test_costly_endpoint_is_asked_seldomer(tmp_path: Path) -> None:
    """The dashboard spends at most a twentieth of its time on one endpoint, the first time apart.

    Serve's, Data's and Train's first answer takes a driver's start: seconds on a busy machine.
    """

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board)
            real = poll.snapshots._client.get

            async def slow(name: str, *, timeout_s: float) -> Answer:
                if name == endpoints.JOBS:
                    poll.clock[0] += 3.0
                return await real(name, timeout_s=timeout_s)

            poll.snapshots._client.get = slow  # type: ignore[method-assign]
            await poll.rounds(2, step_s=10)
            assert board.asked.count(endpoints.JOBS) == 2
            await poll.rounds(5, step_s=10)
            assert board.asked.count(endpoints.JOBS) == 2
            await poll.rounds(1)
            assert board.asked.count(endpoints.JOBS) == 3

    run(test)


def test_a_round_that_fails_is_counted_and_the_next_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polling is an extra: its failures end nothing, so only the counter tells."""
    monkeypatch.setattr("collector.dashboard.polling.ROUND_S", 0.01)

    async def test() -> None:
        async with dashboard() as board:
            poll = poller(tmp_path, board)
            rounds = 0

            async def fail() -> float:
                nonlocal rounds
                rounds += 1
                raise RuntimeError("told")

            monkeypatch.setattr(poll.snapshots, "_round", fail)
            task = asyncio.create_task(poll.snapshots.run())
            while rounds < 3:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            name = "rayhistory_collector_loop_errors_total"
            assert poll.errors.registry.get_sample_value(name, {"task": "snapshots"}) == rounds

    run(test)
