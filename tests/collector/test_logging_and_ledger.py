"""The log format, the counts of events, and background work."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector import logs
from collector.background import in_daemon_thread, repeat
from collector.journal.recovery import PENDING_NODE
from collector.ledger import BatchCounts, Ledger
from collector.metrics import CollectorMetrics
from tests.collector.events import NODE, OLD_SESSION, OTHER_NODE, SESSION


@pytest.fixture
def root_logging() -> Iterator[None]:
    """Puts the root logger back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    server_level = logging.getLogger("aiohttp.server").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("aiohttp.server").setLevel(server_level)


def log_of(style: str, level: str) -> str:
    stream = io.StringIO()
    logs.set_up(level=level, style=style, stream=stream)
    log = logging.getLogger("collector.test")
    log.debug("hidden")
    log.warning("odd thing", extra={"reason": "because", "path": Path("/x")})
    try:
        int("told")
    except ValueError:
        log.exception("failed")
    return stream.getvalue()


@pytest.mark.usefixtures("root_logging")
def test_json_is_one_object_per_line() -> None:
    """With the fields beside the message, and a traceback inside."""
    first, second = map(json.loads, log_of("auto", "info").splitlines())
    assert (first["level"], first["logger"]) == ("warning", "collector.test")
    assert (first["message"], first["reason"], first["path"]) == ("odd thing", "because", "/x")
    assert first["time"].endswith("+00:00")
    assert "ValueError: invalid" in second["exception"]


@pytest.mark.usefixtures("root_logging")
def test_text_is_for_people() -> None:
    """One line, then the traceback."""
    lines = log_of("text", "warning").splitlines()
    assert lines[0].endswith("warning collector.test odd thing reason=because path=/x")
    assert lines[-1].startswith("ValueError: invalid")


@pytest.mark.usefixtures("root_logging")
def test_the_level_is_obeyed() -> None:
    """Errors only."""
    assert "odd thing" not in log_of("json", "error")


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
    metrics = CollectorMetrics()
    calls: list[int] = []

    async def step() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise ValueError("told")

    async def run() -> None:
        wake = asyncio.Event()
        task = asyncio.create_task(
            repeat(step, every_s=60, task="test", metrics=metrics, wake=wake)
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
    assert metrics.registry.get_sample_value(name, {"task": "test"}) == 1


def test_a_daemon_threads_outcome_reaches_its_caller() -> None:
    """Result or error."""

    def fail() -> None:
        raise KeyError("told")

    async def run() -> None:
        assert await in_daemon_thread(lambda: 5, name="test") == 5
        with pytest.raises(KeyError, match="told"):
            await in_daemon_thread(fail, name="test")

    asyncio.run(run())
