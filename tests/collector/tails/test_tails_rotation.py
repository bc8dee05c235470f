"""Following log files across rotation, truncation, deletion and restarts."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from collector.ray_session import RaySession
from collector.tails import LogEndReason, LogTails
from tests.collector.shipping.shipping_kit import ray_session
from tests.collector.tails.tail_kit import by_path, drain


@pytest.fixture
def session(tmp_path: Path) -> RaySession:
    return ray_session(tmp_path)


def test_growth_is_read_once(session: RaySession) -> None:
    """What was read is not read again; what is appended is."""
    log = session.logs_dir / "raylet.out"
    log.write_bytes(b"one\n")
    tails = LogTails(session)
    first = drain(tails)
    with log.open("ab") as file:
        file.write(b"two\n")
    second, third = drain(tails), drain(tails)
    assert list(first.values()) == [b"one\n"]
    assert list(second.values()) == [b"two\n"]
    assert third == {}


def test_rotation_is_followed_by_identity(session: RaySession) -> None:
    """x.out -> x.out.1 -> x.out.2: each content stays whole and ends under its last name."""
    logs = session.logs_dir
    (logs / "x.out").write_bytes(b"first ")
    tails = LogTails(session)
    pieces = [drain(tails)]
    with (logs / "x.out").open("ab") as file:
        file.write(b"incarnation\n")
    (logs / "x.out").rename(logs / "x.out.1")
    (logs / "x.out").write_bytes(b"second\n")
    pieces.append(drain(tails))
    (logs / "x.out.1").rename(logs / "x.out.2")
    (logs / "x.out").rename(logs / "x.out.1")
    (logs / "x.out").write_bytes(b"third\n")
    pieces.append(drain(tails))
    assert by_path(tails, *pieces) == {
        "x.out": b"third\n",
        "x.out.1": b"second\n",
        "x.out.2": b"first incarnation\n",
    }


def test_rest_of_a_deleted_file_is_read(session: RaySession) -> None:
    """A log that grew and was rotated out of existence between two looks is read to its end."""
    log = session.logs_dir / "x.out"
    log.write_bytes(b"seen ")
    tails = LogTails(session)
    pieces = [drain(tails)]
    with log.open("ab") as file:
        file.write(b"unseen\n")
    log.unlink()
    (session.logs_dir / "x.out").write_bytes(b"next\n")
    pieces.append(drain(tails))
    tails.scan()
    assert by_path(tails, *pieces) == {"x.out": b"next\n", "x.out.gone-1": b"seen unseen\n"}
    assert all(log.gap is None for log in tails.logs())
    assert tails.take_ended()[LogEndReason.DELETED] == 1


def test_incarnations_rotated_out_are_numbered_in_order(session: RaySession) -> None:
    """The names of incarnations that have no place any more never clash and never change."""
    logs = session.logs_dir
    tails = LogTails(session)
    pieces = []
    names: list[set[str]] = []
    for number in range(6):
        if (logs / "x.out").exists():
            if (logs / "x.out.1").exists():
                (logs / "x.out.1").unlink()
            (logs / "x.out").rename(logs / "x.out.1")
        (logs / "x.out").write_bytes(b"%d\n" % number)
        pieces.append(drain(tails))
        names.append({log.path for log in tails.logs()})
    tails.scan()
    assert by_path(tails, *pieces) == {
        "x.out": b"5\n",
        "x.out.1": b"4\n",
        "x.out.1.gone-1": b"0\n",
        "x.out.1.gone-2": b"1\n",
        "x.out.1.gone-3": b"2\n",
        "x.out.1.gone-4": b"3\n",
    }
    assert all(earlier <= later for earlier, later in pairwise(names[1:]))


def test_deleted_file_keeps_its_name_while_nobody_takes_it(session: RaySession) -> None:
    """A user's log that is deleted is still found under its own name."""
    log = session.logs_dir / "user.log"
    log.write_bytes(b"mine\n")
    tails = LogTails(session)
    drain(tails)
    log.unlink()
    drain(tails)
    assert [log.path for log in tails.logs()] == ["user.log"]


def test_truncation_begins_a_new_incarnation(session: RaySession) -> None:
    """Copy and truncate: what was read stays, what follows is another log."""
    log = session.logs_dir / "x.log"
    log.write_bytes(b"before the cut\n")
    tails = LogTails(session)
    pieces = [drain(tails)]
    with log.open("r+b") as file:
        file.truncate(0)
    with log.open("ab") as file:
        file.write(b"after\n")
    pieces.append(drain(tails))
    assert by_path(tails, *pieces) == {"x.log": b"after\n", "x.log.gone-1": b"before the cut\n"}
    assert tails.take_ended()[LogEndReason.TRUNCATED] == 1


@pytest.mark.parametrize("new_head", [b"other\n", b"first line\n"])
def test_file_written_anew_and_longer_is_noticed(session: RaySession, new_head: bytes) -> None:
    """A cut file that grew past the old size before the next look, even with the same start."""
    log = session.logs_dir / "x.log"
    log.write_bytes(b"first line\nold old old\n")
    tails = LogTails(session)
    pieces = [drain(tails)]
    log.write_bytes(new_head + b"new " * 50)
    pieces += [drain(tails), drain(tails)]
    assert by_path(tails, *pieces) == {
        "x.log": new_head + b"new " * 50,
        "x.log.gone-1": b"first line\nold old old\n",
    }


def test_inode_used_again_is_another_log(session: RaySession) -> None:
    """With no descriptor open, a new file with the inode of a deleted one is not a continuation."""
    logs = session.logs_dir
    (logs / "a.log").write_bytes(b"content of a\n")
    state_source = LogTails(session)
    drain(state_source)
    states = state_source.states()
    state_source.close()
    inode = (logs / "a.log").stat().st_ino
    (logs / "a.log").unlink()
    (logs / "b.log").write_bytes(b"content of b, which is longer\n")
    states[0].inode = (logs / "b.log").stat().st_ino if inode else 0
    tails = LogTails(session, restored=states)
    pieces = [drain(tails), drain(tails)]
    found = by_path(tails, *pieces)
    assert found["b.log"] == b"content of b, which is longer\n"
    assert len(found) == 2


def test_restart_goes_on_where_it_stopped(session: RaySession) -> None:
    """A new process reads only what the last one had not committed, whatever the names now."""
    log = session.logs_dir / "x.out"
    log.write_bytes(b"one\n")
    first = LogTails(session)
    drain(first)
    with log.open("ab") as file:
        file.write(b"two\n")
    first.scan()
    uncommitted = list(first.read(max_raw_bytes=100))
    assert len(uncommitted) == 1
    states = first.states()
    log.rename(session.logs_dir / "x.out.1")
    second = LogTails(session, restored=states)
    assert list(drain(second).values()) == [b"two\n"]
    assert [log.path for log in second.logs()] == ["x.out.1"]


def test_file_lost_during_the_downtime_is_a_gap(session: RaySession) -> None:
    """What was there and vanished while no collector ran is told, not forgotten."""
    log = session.logs_dir / "x.out"
    log.write_bytes(b"12345")
    first = LogTails(session)
    drain(first)
    with log.open("ab") as file:
        file.write(b"67890")
    first.scan()
    states = first.states()
    first.close()
    log.unlink()
    second = LogTails(session, restored=states)
    second.scan()
    assert [log.gap for log in second.logs()] == [(5, 10)]


def test_rewind_reads_again(session: RaySession) -> None:
    """Frames that did not reach storage are yielded anew."""
    (session.logs_dir / "x").write_bytes(b"text\n")
    tails = LogTails(session)
    tails.scan()
    first = list(tails.read(max_raw_bytes=100))
    assert list(tails.read(max_raw_bytes=100)) == []
    tails.rewind()
    assert list(tails.read(max_raw_bytes=100)) == first


def test_a_file_written_anew_in_place_has_its_last_content(session: RaySession) -> None:
    """debug_state.txt, which the raylet writes every 10 s, does not become a log per writing."""
    debug = session.logs_dir / "debug_state.txt"
    clock = [0.0]
    tails = LogTails(session, monotonic=lambda: clock[0])
    for number in range(5):
        debug.write_bytes(b"NodeManager:\nstate %d\n" % number)
        os.utime(debug, ns=(number, number))
        content = drain(tails)
        clock[0] += 61
    assert list(content.values()) == [b"NodeManager:\nstate 4\n"]
    assert len(tails.logs()) == 1
    debug.write_bytes(b"NodeManager:\nlast\n")
    assert drain(tails) != {}
    debug.write_bytes(b"NodeManager:\nthe very last\n")
    os.utime(debug, ns=(99, 99))
    assert drain(tails) == {}, "not again within the minute"
    tails.scan(final=True)
    assert list(drain(tails, scan=False).values()) == [b"NodeManager:\nthe very last\n"]


def test_a_file_that_is_cut_again_and_again_counts_as_rewritten(session: RaySession) -> None:
    """An unknown status file does not grow the list of logs without end."""
    status = session.logs_dir / "status.json"
    clock = [0.0]
    tails = LogTails(session, monotonic=lambda: clock[0])
    for number in range(40):
        status.write_bytes(b"x" * (100 - number))
        drain(tails)
        clock[0] += 61
    assert len(tails.logs()) < 12


def test_retained_bytes_are_bounded(session: RaySession, caplog: pytest.LogCaptureFixture) -> None:
    """Deleted logs that storage cannot take yet are held up to a limit; beyond it they are gaps."""
    tails = LogTails(session, retain_bytes=150)
    for number in range(3):
        (session.logs_dir / f"{number}.log").write_bytes(b"x" * (80 + number))
    tails.scan()
    for number in range(3):
        (session.logs_dir / f"{number}.log").unlink()
    tails.scan()
    gaps = {log.path: log.gap for log in tails.logs()}
    assert gaps == {"0.log": None, "1.log": (0, 81), "2.log": (0, 82)}
    given_up = [vars(record)["lost_bytes"] for record in caplog.records]
    assert given_up == [82, 81]
    assert list(drain(tails, scan=False).values()) == [b"x" * 80]
    assert tails.take_ended() == {LogEndReason.GIVEN_UP: 2, LogEndReason.DELETED: 1}
    assert not tails.take_ended()


def test_logs_of_another_node_of_the_session_are_left_alone(session: RaySession) -> None:
    """A restarted worker container does not file its predecessor's logs under its own id."""
    old, shared = session.logs_dir / "raylet.out", session.logs_dir / "agent.log"
    old.write_bytes(b"old raylet\n")
    shared.write_bytes(b"old\n")
    first = LogTails(session)
    drain(first)
    claimed = {log.file_id: log.size_bytes for log in first.logs()}
    with shared.open("ab") as file:
        file.write(b"new\n")
    (session.logs_dir / "raylet.1.out").write_bytes(b"new raylet\n")
    second = LogTails(session, claimed=claimed)
    assert by_path(second, drain(second)) == {
        "agent.log": b"old\nnew\n",
        "raylet.1.out": b"new raylet\n",
    }
