"""Bodies committed together: dedupe, quarantine, failures, the disk thread."""

from __future__ import annotations

import asyncio
import errno
import json
import mmap
import os
import threading
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.intake import commits
from collector.intake.envelope import Reason
from collector.journal import NoSpaceError
from collector.journal.active import SegmentKey
from tests.collector.events import NODE, OTHER_NODE, SESSION, body, task_body, task_event
from tests.collector.intake.intake_rig import NO_RESERVE, IntakeRig, stored_ids


def test_a_resent_batch_is_stored_once(tmp_path: Path) -> None:
    """Ray sends again what was answered too late; also within one group."""
    rig = IntakeRig(tmp_path)
    assert rig.commit(task_body(0, 100), task_body(50, 100)) == [None, None]
    assert rig.commit(task_body(0, 150)) == [None]
    assert set(stored_ids(tmp_path).values()) == {1}
    assert len(stored_ids(tmp_path)) == 150
    totals = rig.ledger.take(SESSION, NODE)
    assert (totals.received, totals.duplicates, totals.stored) == (350, 200, 150)
    assert rig.metric("events_duplicate_total") == 200


def test_a_restart_knows_what_was_stored(tmp_path: Path) -> None:
    """Killed between storing and answering: the resent batch is known from the journal."""
    IntakeRig(tmp_path).commit(task_body(0, 100))
    again = IntakeRig(tmp_path)
    assert again.commit(task_body(0, 120)) == [None]
    assert set(stored_ids(tmp_path).values()) == {1}
    assert len(stored_ids(tmp_path)) == 120


def test_a_restart_knows_what_is_cold_already(tmp_path: Path) -> None:
    """The segment was shipped and its file removed before the kill."""
    rig = IntakeRig(tmp_path)
    rig.commit(task_body(0, 100))
    rig.journal.seal_all()
    for segment in rig.journal.sealed():
        rig.journal.remove(segment)
    again = IntakeRig(tmp_path)
    again.commit(task_body(0, 101))
    assert len(stored_ids(tmp_path)) == 1


def test_bad_events_go_to_quarantine_and_good_ones_are_stored(tmp_path: Path) -> None:
    """A poisoned batch is acknowledged; each bad event is kept and counted by its reason."""
    rig = IntakeRig(tmp_path)
    poison = body(task_event(1), 5, task_event(2) | {"sessionName": "../x"}, task_event(3))
    assert rig.commit(poison, b"no json at all", b"{}") == [None, None, None]
    assert len(stored_ids(tmp_path)) == 2
    records = [
        json.loads(line)
        for line in (tmp_path / "quarantine" / "events.jsonl").read_bytes().splitlines()
    ]
    assert [record["reason"] for record in records] == [
        "not_an_object",
        "bad_session_name",
        "body_not_json",
        "body_not_array",
    ]
    for reason in (Reason.NOT_AN_OBJECT, Reason.BAD_SESSION_NAME, Reason.BODY_NOT_JSON):
        assert rig.metric("events_quarantined_total", reason=reason.value) == 1
    assert rig.ledger.take(SESSION, NODE).quarantined == 4


def test_a_resent_poison_is_kept_once(tmp_path: Path) -> None:
    """The same bytes again say nothing new."""
    rig = IntakeRig(tmp_path)
    for _ in range(3):
        rig.commit(body(5, task_event(1)))
    lines = (tmp_path / "quarantine" / "events.jsonl").read_bytes().splitlines()
    assert len(lines) == 1


def test_quarantine_is_bounded(tmp_path: Path) -> None:
    """Once full it only counts; the batch is acknowledged all the same."""
    rig = IntakeRig(tmp_path, quarantine_max_bytes=4096)
    for number in range(100):
        assert rig.commit(body(f"{number}" * 100, task_event(number))) == [None]
    assert rig.quarantine.size_bytes <= 4096
    assert (tmp_path / "quarantine" / "events.jsonl").stat().st_size <= 4096
    assert rig.metric("events_quarantined_total", reason="not_an_object") == 100
    assert rig.metric("quarantine_unkept_total", reason="full") > 0
    assert rig.metric("quarantine_unkept_total", reason="not_writable") == 0
    assert len(stored_ids(tmp_path)) == 100


def test_a_body_full_of_bad_events_costs_little(tmp_path: Path) -> None:
    """Only some are kept, all are counted."""
    rig = IntakeRig(tmp_path)
    rig.commit(b"[" + b",".join(b"%d" % number for number in range(20_000)) + b"]")
    lines = (tmp_path / "quarantine" / "events.jsonl").read_bytes().splitlines()
    assert len(lines) == commits.MAX_KEPT_PER_BODY
    assert rig.metric("events_quarantined_total", reason="not_an_object") == 20_000
    unkept = 20_000 - commits.MAX_KEPT_PER_BODY
    assert rig.metric("quarantine_unkept_total", reason="too_many") == unkept


def test_a_quarantine_that_cannot_be_written_is_told_apart(tmp_path: Path) -> None:
    """The batch is acknowledged all the same, and the folder is not called full."""
    rig = IntakeRig(tmp_path)
    (tmp_path / "quarantine" / "events.jsonl").mkdir()
    assert rig.commit(body(5, task_event(1))) == [None]
    assert rig.metric("quarantine_unkept_total", reason="not_writable") == 1
    assert rig.metric("quarantine_unkept_total", reason="full") == 0


@pytest.mark.parametrize("operation", ["rotate", "sync"])
def test_the_disk_threads_own_failures_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Nobody awaits them, so only the log and the counter tell."""
    rig = IntakeRig(tmp_path)
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(rig.journal, operation, fail)
    monkeypatch.setattr("collector.intake.disk_thread.ROTATION_CHECK_S", 0.01)
    monkeypatch.setattr("collector.intake.disk_thread.SYNC_INTERVAL_S", 0.01)
    disk = rig.disk_thread()
    disk.start()
    assert failed.wait(10)
    disk.close()
    assert rig.metric("journal_errors_total", operation=operation) >= 1


def test_events_of_another_session_go_to_its_own_journal(tmp_path: Path) -> None:
    """Late events of a session that ended."""
    old = "session_2026-11-30_10-00-00_000001_7"
    rig = IntakeRig(tmp_path)
    rig.nodes[SESSION] = OTHER_NODE
    rig.commit(body(task_event(1), task_event(2, session=old)))
    assert rig.journal.sessions() == {(SESSION, OTHER_NODE), (old, NODE)}


class FailingAppends:
    """Lets appends to some keys fail."""

    def __init__(self, rig: IntakeRig, failing: set[object]) -> None:
        self.failing = failing
        self._append = rig.journal.append

    def __call__(self, key: SegmentKey, lines: Sequence[bytes]) -> None:
        if key.category in self.failing:
            raise OSError(errno.EIO, "Input/output error")
        self._append(key, lines)


def test_a_batch_is_good_only_when_every_event_of_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job's segment cannot be written: who has events of it fails, who waits for it too."""
    rig = IntakeRig(tmp_path)
    one, two = ("job_events", "01000000"), ("job_events", "02000000")
    appends = FailingAppends(rig, {one})
    monkeypatch.setattr(rig.journal, "append", appends)
    mixed = body(task_event(1, job="01000000"), task_event(2, job="02000000"))
    same = body(task_event(1, job="01000000"))
    fine = body(task_event(3, job="02000000"))
    errors = rig.commit(mixed, same, fine)
    assert [type(error) for error in errors] == [OSError, OSError, type(None)]
    assert len(stored_ids(tmp_path)) == 2
    appends.failing.clear()
    assert rig.commit(mixed, same) == [None, None]
    assert set(stored_ids(tmp_path).values()) == {1}
    assert len(stored_ids(tmp_path)) == 3
    assert two not in appends.failing


def test_a_full_disk_refuses_and_takes_the_batch_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a refused batch counts as stored."""
    rig = IntakeRig(tmp_path, limits=replace(NO_RESERVE, reserve_bytes=1000))
    monkeypatch.setattr("collector.journal.journal.free_bytes", lambda _: 0)
    (error,) = rig.commit(task_body(0, 10))
    assert isinstance(error, NoSpaceError)
    assert not stored_ids(tmp_path)
    monkeypatch.undo()
    assert rig.commit(task_body(0, 10)) == [None]
    assert len(stored_ids(tmp_path)) == 10


def test_a_very_large_body_is_written_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines are never all in memory: a mapped body of 40 MB takes a few MB."""
    monkeypatch.setattr(commits, "FLUSH_BYTES", 1024 * 1024)
    rig = IntakeRig(tmp_path)
    path = tmp_path / "large"
    events = (json.dumps(task_event(n) | {"message": "x" * 100_000}) for n in range(400))
    path.write_text("[" + ",".join(events) + "]")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        tracemalloc.start()
        group = commits.Group(rig.parts)
        batch = commits.Batch(mapped)
        group.add(batch)
        group.close()
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert batch.error is None
    assert len(stored_ids(tmp_path)) == 400
    assert peak_bytes < 8 * 1024 * 1024


def test_the_disk_thread_commits_what_waits_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one write is slow the others gather, and one more write takes them all."""
    rig = IntakeRig(tmp_path)
    writes: list[int] = []
    gate = threading.Event()
    real = os.pwrite

    def slow(handle: int, data: memoryview, offset: int) -> int:
        writes.append(len(data))
        gate.wait(10)
        return real(handle, data, offset)

    monkeypatch.setattr("collector.journal.active.os.pwrite", slow)

    async def run() -> None:
        disk = rig.disk_thread()
        disk.start()
        first = disk.submit(task_body(0, 10))
        while not writes:
            await asyncio.sleep(0.01)
        others = [disk.submit(task_body(start, 10)) for start in range(0, 500, 10)]
        sealed = disk.call(rig.journal.seal_all)
        late = disk.submit(task_body(500, 10))
        gate.set()
        await asyncio.gather(first, *others, sealed, late)
        await asyncio.to_thread(disk.close)

    asyncio.run(run())
    assert len(stored_ids(tmp_path)) == 510
    assert len(writes) == 3
    (segment,) = rig.journal.sealed()
    assert segment.events == 500


def test_a_failing_call_reaches_the_caller(tmp_path: Path) -> None:
    """And the disk thread goes on."""
    rig = IntakeRig(tmp_path)

    def fail() -> None:
        raise ValueError("told")

    async def run() -> None:
        disk = rig.disk_thread()
        disk.start()
        with pytest.raises(ValueError, match="told"):
            await disk.call(fail)
        await disk.submit(task_body(0, 1))
        await asyncio.to_thread(disk.close)

    asyncio.run(run())
    assert len(stored_ids(tmp_path)) == 1
