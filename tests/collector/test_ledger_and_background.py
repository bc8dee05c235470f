"""The counts of events, and background work."""

from __future__ import annotations

import asyncio

import pytest

from collector.intake.ledger import BatchCounts, Ledger
from collector.journal.recovery import PENDING_NODE
from collector.lifecycle.background import in_daemon_thread, repeat
from collector.metrics import BackgroundTask, LoopErrors
from tests.collector.events import NODE, OLD_SESSION, OTHER_NODE, SESSION


def test_counts_are_told_once() -> None:
    """Each session and node for itself; what had no node yet goes to the first that asks."""
    ledger = Ledger()
    ledger.add(SESSION, NODE, BatchCounts(received=10, duplicates=3, stored=7))
    ledger.add(SESSION, OTHER_NODE, BatchCounts(received=4, stored=4))
    ledger.add(SESSION, PENDING_NODE, BatchCounts(received=1, stored=1))
    ledger.add_quarantined(2)
    taken = ledger.take(SESSION, NODE)
    assert (taken.received, taken.duplicates, taken.stored) == (13, 3, 8)
    assert taken.quarantined == 2
    assert ledger.take(SESSION, OTHER_NODE).received == 4
    assert ledger.take(OLD_SESSION, NODE).received == 0
    assert ledger.take(SESSION, NODE).received == 0


def test_a_repeated_step_survives_its_failures() -> None:
    """Counted, and called again; at once when it is woken."""
    errors = LoopErrors()
    calls: list[int] = []

    async def step() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise ValueError("told")

    async def run() -> None:
        wake = asyncio.Event()
        task = asyncio.create_task(
            repeat(step, every_s=60, task=BackgroundTask.FOLLOW, errors=errors, wake=wake)
        )
        for expected in (1, 2, 3):
            while len(calls) < expected:
                await asyncio.sleep(0.01)
            wake.set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    name = "rayhistory_collector_loop_errors_total"
    assert errors.registry.get_sample_value(name, {"task": "follow"}) == 1
    assert errors.registry.get_sample_value(name, {"task": "leftovers"}) == 0


def test_a_daemon_threads_outcome_reaches_its_caller() -> None:
    """Result or error."""

    def fail() -> None:
        raise KeyError("told")

    async def run() -> None:
        assert await in_daemon_thread(lambda: 5, name="test") == 5
        with pytest.raises(KeyError, match="told"):
            await in_daemon_thread(fail, name="test")

    asyncio.run(run())
