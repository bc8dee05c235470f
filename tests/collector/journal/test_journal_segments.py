"""Segments on disk: rotation, recovery, hot blocks, limits."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from collector.journal import Journal, JournalLimits, NoSpaceError
from collector.journal import journal as journal_module
from collector.journal import segments as segments_module
from collector.journal.active import SegmentKey
from collector.journal.segments import SegmentStore
from collector.metrics import CollectorMetrics
from tests.collector.events import NODE, OTHER_NODE, SESSION
from tests.collector.intake.intake_rig import NO_RESERVE, hot_lines

NODE_KEY = SegmentKey(SESSION, NODE, "node_events")
JOB_KEY = SegmentKey(SESSION, NODE, ("job_events", "02000000"))
LINE = b'{"eventId":"a"}'


def new_journal(path: Path, limits: JournalLimits = NO_RESERVE) -> Journal:
    journal = Journal(path, limits=limits, metrics=CollectorMetrics())
    list(journal.recover(0))
    return journal


def errors(metrics: CollectorMetrics, operation: str) -> float | None:
    name = "rayhistory_collector_journal_errors_total"
    return metrics.registry.get_sample_value(name, {"operation": operation})


def test_appended_lines_are_in_the_file_at_once(tmp_path: Path) -> None:
    """In the hands of the operating system when `append` returns: a kill loses nothing."""
    journal = new_journal(tmp_path)
    journal.append(NODE_KEY, [LINE, LINE])
    journal.append(JOB_KEY, [LINE])
    (node_file,) = (tmp_path / SESSION / NODE / "node_events").iterdir()
    (job_file,) = (tmp_path / SESSION / NODE / "job_events" / "02000000").iterdir()
    assert node_file.read_bytes() == LINE + b"\n" + LINE + b"\n"
    assert job_file.read_bytes() == LINE + b"\n"
    assert journal.size_bytes == 3 * (len(LINE) + 1)


def test_the_journal_is_what_the_shipper_expects(tmp_path: Path) -> None:
    """The seam, checked by the type checker too."""
    store: SegmentStore = new_journal(tmp_path)
    assert list(store.sealed()) == []
    assert list(store.hot_blocks()) == []


def test_a_full_segment_is_sealed_and_the_next_opened(tmp_path: Path) -> None:
    """By size, with its counts."""
    journal = new_journal(tmp_path, replace(NO_RESERVE, max_segment_bytes=100))
    for _ in range(10):
        journal.append(NODE_KEY, [LINE])
    (segment,) = journal.sealed()
    assert (segment.events, segment.size_bytes) == (7, 7 * 16)
    assert (segment.session, segment.node_id, segment.category) == (SESSION, NODE, "node_events")
    assert segment.path.name == f"{segment.created_ns}.jsonl"
    assert not segment.recovered


def test_an_old_segment_is_sealed(tmp_path: Path) -> None:
    """By age, also when nothing more comes."""
    journal = new_journal(tmp_path, replace(NO_RESERVE, rotation_interval_s=0.0))
    journal.append(NODE_KEY, [LINE])
    journal.rotate()
    assert len(journal.sealed()) == 1
    young = new_journal(tmp_path / "young")
    young.append(NODE_KEY, [LINE])
    young.rotate()
    assert not young.sealed()


def test_a_clock_that_is_set_back_delays_no_sealing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are in the order of time all the same."""
    journal = new_journal(tmp_path, replace(NO_RESERVE, rotation_interval_s=0.0))
    journal.append(NODE_KEY, [LINE])
    now_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns - 10**9 * 86400)
    journal.rotate()
    journal.append(NODE_KEY, [LINE])
    journal.rotate()
    first, second = journal.sealed()
    assert first.created_ns < second.created_ns


def test_sealing_a_session_leaves_others_open(tmp_path: Path) -> None:
    """The old session is finished while the new one goes on."""
    other = SegmentKey("session_2026-11-30_20-57-10_681566_45", OTHER_NODE, "node_events")
    journal = new_journal(tmp_path)
    journal.append(NODE_KEY, [LINE])
    journal.append(other, [LINE])
    journal.seal_session(SESSION)
    assert [segment.session for segment in journal.sealed()] == [SESSION]
    journal.append(NODE_KEY, [LINE])
    assert journal.sessions() == {(SESSION, NODE), (other.session, OTHER_NODE)}
    journal.seal_all()
    assert len(journal.sealed()) == 3


def test_a_removed_segment_is_gone(tmp_path: Path) -> None:
    """After it is cold; twice is no error."""
    journal = new_journal(tmp_path)
    journal.append(NODE_KEY, [LINE])
    journal.seal_all()
    (segment,) = journal.sealed()
    journal.remove(segment)
    journal.remove(segment)
    assert not segment.path.exists()
    assert journal.size_bytes == 0
    assert not journal.sessions()


def test_what_is_sealed_is_saved_before_the_shipper_sees_it(tmp_path: Path) -> None:
    """The ids of a segment must be kept before its file can be removed."""
    seen: list[int] = []
    journal = Journal(
        tmp_path,
        limits=NO_RESERVE,
        metrics=CollectorMetrics(),
        before_seal=lambda: seen.append(len(journal.sealed())),
    )
    journal.append(NODE_KEY, [LINE])
    journal.seal_all()
    journal.seal_all()
    assert seen == [0]
    assert len(journal.sealed()) == 1


def test_a_disk_that_fails_at_sealing_keeps_nothing_from_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was appended stays stored once: the append does not fail for it."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    metrics = CollectorMetrics()
    journal = Journal(
        tmp_path,
        limits=replace(NO_RESERVE, max_segment_bytes=1),
        metrics=metrics,
        before_seal=fail,
    )
    monkeypatch.setattr("collector.journal.active.os.fdatasync", fail)
    journal.append(NODE_KEY, [LINE])
    (segment,) = journal.sealed()
    assert segment.path.read_bytes() == LINE + b"\n"
    assert (errors(metrics, "save_ids"), errors(metrics, "seal")) == (1, 1)
    assert errors(metrics, "append") == 0


def test_hot_blocks_cover_each_line_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks end at line ends, hold at most the block size, and are not told again once marked."""
    monkeypatch.setattr(journal_module, "HOT_BLOCK_BYTES", 50)
    journal = new_journal(tmp_path)
    lines = [b"%d" % number + b"x" * (number * 7 % 90) for number in range(40)]
    for line in lines[:30]:
        journal.append(NODE_KEY, [line])
    blocks = list(journal.hot_blocks())
    assert [line for block in blocks for line in block.read().splitlines()] == lines[:30]
    assert all(b.end - b.start <= 50 or b.read().count(b"\n") == 1 for b in blocks)
    journal.mark_hot(blocks[3].path, blocks[3].end)
    rest = [line for block in blocks[4:] for line in block.read().splitlines()]
    assert hot_lines(journal) == rest
    journal.seal_all()
    assert hot_lines(journal) == rest
    journal.append(NODE_KEY, lines[30:])
    assert hot_lines(journal) == rest + lines[30:]
    assert segments_module.HOT_BLOCK_BYTES == 1024 * 1024


def test_a_mark_on_a_segment_that_is_gone_is_no_error(tmp_path: Path) -> None:
    """Cold shipping may be faster than hot."""
    journal = new_journal(tmp_path)
    journal.append(NODE_KEY, [LINE])
    (block,) = journal.hot_blocks()
    journal.seal_all()
    (segment,) = journal.sealed()
    journal.remove(segment)
    journal.mark_hot(block.path, block.end)
    assert not list(journal.hot_blocks())


@pytest.mark.parametrize("torn", [b"", b'{"eventId": "to', b"x" * (3 * 1024 * 1024)])
def test_recovery_cuts_a_torn_line(tmp_path: Path, torn: bytes) -> None:
    """A killed process leaves part of a line; whole lines stay, and nothing else changes."""
    journal = new_journal(tmp_path)
    journal.append(NODE_KEY, [LINE] * 3)
    (path,) = (tmp_path / SESSION / NODE / "node_events").iterdir()
    with path.open("ab") as file:
        file.write(torn)
    again = Journal(tmp_path, limits=NO_RESERVE, metrics=CollectorMetrics())
    assert list(again.recover(10)) == [LINE + b"\n"] * 3
    (segment,) = again.sealed()
    assert (segment.events, segment.size_bytes) == (3, 3 * 16)
    assert segment.recovered
    assert path.read_bytes() == (LINE + b"\n") * 3
    assert not list(again.hot_blocks())


def test_recovery_deletes_empty_files_and_leaves_foreign_ones(tmp_path: Path) -> None:
    """Other parts keep files beside the segments."""
    directory = tmp_path / SESSION / NODE / "node_events"
    directory.mkdir(parents=True)
    (directory / "1.jsonl").write_bytes(b"torn only")
    (directory / "notes.txt").write_text("kept")
    (directory / "odd.jsonl").write_bytes(LINE + b"\n")
    (tmp_path / "shipping" / NODE / "node_events").mkdir(parents=True)
    (tmp_path / "shipping" / NODE / "node_events" / "2.jsonl").write_bytes(LINE + b"\n")
    journal = new_journal(tmp_path)
    assert not journal.sealed()
    assert sorted(path.name for path in directory.iterdir()) == ["notes.txt", "odd.jsonl"]


def test_recovery_yields_the_newest_lines_up_to_the_limit(tmp_path: Path) -> None:
    """For the dedupe window: the last lines of the newest segments."""
    journal = new_journal(tmp_path)
    journal.append(NODE_KEY, [b"1", b"2", b"3"])
    journal.seal_all()
    (old,) = journal.sealed()
    os.utime(old.path, ns=(1, 1))
    journal.append(JOB_KEY, [b"4", b"5"])
    again = Journal(tmp_path, limits=NO_RESERVE, metrics=CollectorMetrics())
    assert list(again.recover(3)) == [b"4\n", b"5\n", b"3\n"]


def test_a_failed_write_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes half a line: no torn line in the middle, and the next write is whole."""
    journal = new_journal(tmp_path)
    journal.append(NODE_KEY, [LINE])
    real = os.pwrite
    calls = iter([True, False])

    def half(handle: int, data: bytes, offset: int) -> int:
        if next(calls, False):
            return real(handle, data[:5], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("collector.journal.active.os.pwrite", half)
    with pytest.raises(OSError, match="No space"):
        journal.append(NODE_KEY, [LINE] * 100)
    monkeypatch.undo()
    journal.append(NODE_KEY, [b"next"])
    journal.seal_all()
    (segment,) = journal.sealed()
    assert segment.path.read_bytes() == LINE + b"\nnext\n"
    assert segment.events == 2


def test_over_the_cap_everything_is_sealed_and_still_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray drops what it cannot hand over, so the cap presses shipping and refuses nothing."""
    journal = new_journal(tmp_path, replace(NO_RESERVE, cap_bytes=40))
    for _ in range(4):
        journal.append(NODE_KEY, [LINE])
    assert journal.pressed
    journal.check_space(1000)
    monkeypatch.setattr(journal_module, "PRESSED_S", 0.0)
    journal.rotate()
    assert [segment.events for segment in journal.sealed()] == [4]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """When what must stay free is not free any more."""
    journal = new_journal(tmp_path, replace(NO_RESERVE, reserve_bytes=1 << 62))
    with pytest.raises(NoSpaceError):
        journal.check_space(1)


def test_events_without_a_node_wait_for_it(tmp_path: Path) -> None:
    """Before discovery an event may name no node; it is shipped under the id found later."""
    journal = new_journal(tmp_path)
    journal.append(SegmentKey(SESSION, "pending", ("job_events", "01000000")), [LINE])
    journal.rotate()
    assert not list(journal.hot_blocks())
    assert not journal.sealed()
    journal.adopt(SESSION, NODE)
    (segment,) = journal.sealed()
    assert segment.node_id == NODE
    assert segment.path.parent == tmp_path / SESSION / NODE / "job_events" / "01000000"
    assert hot_lines(journal) == [LINE]
    assert journal.sessions() == {(SESSION, NODE)}


def test_many_jobs_do_not_use_up_file_descriptors(tmp_path: Path) -> None:
    """Each job has its own segment; the oldest is sealed when too many are open."""
    journal = new_journal(tmp_path)
    for number in range(journal_module.MAX_ACTIVE + 20):
        journal.append(SegmentKey(SESSION, NODE, ("job_events", f"{number:08x}")), [LINE])
    assert len(journal.sealed()) == 20


def test_syncing_counts_only_what_changed(tmp_path: Path) -> None:
    """Nothing new, nothing to do."""
    metrics = CollectorMetrics()
    journal = Journal(tmp_path, limits=NO_RESERVE, metrics=metrics)
    journal.append(NODE_KEY, [LINE])
    journal.sync()
    journal.sync()
    assert metrics.registry.get_sample_value("rayhistory_collector_journal_syncs_total") == 1
