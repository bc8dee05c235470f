"""Which files are followed, and how their bytes are cut into frames."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from collector.ray_session import RaySession
from collector.tails import LogChangedError, LogTails, SkipReason
from collector.tails.frames import FRAME_RAW_BYTES, decompress
from tests.collector.shipping.shipping_kit import ray_session
from tests.collector.tails.tail_kit import by_path, drain


@pytest.fixture
def session(tmp_path: Path) -> RaySession:
    return ray_session(tmp_path)


def test_only_regular_files_of_the_session_are_followed(
    session: RaySession, tmp_path: Path
) -> None:
    """Sockets, pipes, links out of the session and second names are left out, and counted."""
    logs = session.logs_dir
    (logs / "real.log").write_bytes(b"real\n")
    (logs / "link.log").symlink_to("real.log")
    (logs / "absolute.log").symlink_to(session.session_dir / "inside.txt")
    (session.session_dir / "inside.txt").write_bytes(b"inside\n")
    (tmp_path / "secret").write_bytes(b"outside\n")
    (logs / "out.log").symlink_to(tmp_path / "secret")
    (logs / "dangling.log").symlink_to("nowhere")
    (logs / "loop").symlink_to("loop")
    (logs / "folder").symlink_to(session.session_dir)
    os.mkfifo(logs / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        cwd = Path.cwd()
        os.chdir(logs)
        try:
            server.bind("sock")
        finally:
            os.chdir(cwd)
        tails = LogTails(session)
        found = by_path(tails, drain(tails))
        found = by_path(tails, {**{log.incarnation: b"" for log in tails.logs()}})
    assert set(found) == {"real.log", "absolute.log"}
    assert tails.skipped == {
        SkipReason.NOT_REGULAR: 2,
        SkipReason.SAME_FILE: 1,
        SkipReason.OUTSIDE_SESSION: 1,
        SkipReason.UNREADABLE: 2,
        SkipReason.LINKED_DIRECTORY: 1,
    }


def test_names_of_all_kinds_are_followed(session: RaySession) -> None:
    """Folders, spaces, Unicode; what no key can hold is spelt out, each file for itself."""
    logs = session.logs_dir
    (logs / "serve").mkdir()
    (logs / "serve" / "réplique №1.log").write_bytes(b"a")
    (logs / "with space.log").write_bytes(b"b")
    Path(os.fsdecode(os.fsencode(logs) + b"/odd-\xff.log")).write_bytes(b"c")
    (logs / "line\nand\ttab.log").write_bytes(b"d")
    (logs / "line\\x0aand\ttab.log").write_bytes(b"e")
    tails = LogTails(session)
    assert by_path(tails, drain(tails)) == {
        "serve/réplique №1.log": b"a",
        "with space.log": b"b",
        "odd-\\xff.log": b"c",
        "line\\x0aand\\x09tab.log": b"d",
        "line\\x0aand\\x09tab.log~": b"e",
    }


def test_a_logs_folder_that_leads_out_is_not_followed(session: RaySession, tmp_path: Path) -> None:
    """Whoever controls Ray's container could put a link in its place."""
    outside = tmp_path / "outside"
    session.logs_dir.rename(outside)
    (outside / "token").write_bytes(b"secret")
    session.logs_dir.symlink_to(outside)
    tails = LogTails(session)
    assert drain(tails) == {}
    assert tails.skipped == {SkipReason.OUTSIDE_SESSION: 1}


def test_a_folder_swapped_for_a_link_after_the_look_is_not_read(
    session: RaySession, tmp_path: Path
) -> None:
    """Even when the file behind it is the one that was seen."""
    folder = session.logs_dir / "serve"
    folder.mkdir()
    (folder / "x.log").write_bytes(b"secret")
    tails = LogTails(session, max_open_files=0)
    tails.scan()
    folder.rename(tmp_path / "outside")
    folder.symlink_to(tmp_path / "outside")
    assert drain(tails, scan=False) == {}


def test_no_logs_folder_is_no_error(session: RaySession) -> None:
    """Ray makes it late."""
    session.logs_dir.rmdir()
    tails = LogTails(session)
    tails.scan()
    session.logs_dir.mkdir()
    (session.logs_dir / "x").write_bytes(b"1")
    assert list(drain(tails).values()) == [b"1"]


def test_long_line_and_binary_data_are_cut_anywhere(session: RaySession) -> None:
    """A line of 10 MB and zeros without a line end arrive byte for byte."""
    line = b"x" * (10 * 1024 * 1024) + b"\nend\n"
    binary = bytes(range(256)) * 20_000
    (session.logs_dir / "line").write_bytes(line)
    (session.logs_dir / "binary").write_bytes(binary)
    tails = LogTails(session)
    assert by_path(tails, drain(tails)) == {"line": line, "binary": binary}


def test_frames_end_at_line_ends(session: RaySession) -> None:
    """Frames of a long log are at most 1 MiB and begin with a line."""
    line = b"a line of text that is not very long\n"
    (session.logs_dir / "x").write_bytes(line * 100_000)
    tails = LogTails(session)
    tails.scan()
    frames = list(tails.read(max_raw_bytes=2**30))
    assert len(frames) > 3
    for frame in frames:
        raw = decompress(frame.data, raw_bytes=frame.log_length)
        assert len(raw) <= FRAME_RAW_BYTES
        assert raw.startswith(b"a line")
        assert raw.endswith(b"\n")


def test_small_logs_do_not_wait_for_a_large_one(session: RaySession) -> None:
    """Within a small budget every small log gets its turn."""
    (session.logs_dir / "large").write_bytes(b"l\n" * 5_000_000)
    for number in range(20):
        (session.logs_dir / f"small-{number}").write_bytes(b"s\n")
    tails = LogTails(session)
    tails.scan()
    frames = list(tails.read(max_raw_bytes=2 * FRAME_RAW_BYTES))
    assert len({frame.incarnation for frame in frames}) == 21


def test_content_of_a_changed_log_is_refused(session: RaySession) -> None:
    """A log that got shorter or other bytes while it is put is an error, not a wrong object."""
    log = session.logs_dir / "x"
    log.write_bytes(b"0123456789")
    tails = LogTails(session)
    drain(tails)
    incarnation = tails.logs()[0].incarnation
    assert b"".join(tails.content(incarnation, 2, 7)) == b"23456"
    log.write_bytes(b"abc")
    with pytest.raises(LogChangedError):
        list(tails.content(incarnation, 0, 10))
    log.unlink()
    tails.close()
    with pytest.raises(FileNotFoundError):
        list(tails.content(incarnation, 0, 10))


def test_few_descriptors_are_enough(session: RaySession) -> None:
    """With more logs than descriptors, everything is still read."""
    for number in range(50):
        (session.logs_dir / f"{number}.log").write_bytes(b"%d\n" % number)
    tails = LogTails(session, max_open_files=4)
    found = by_path(tails, drain(tails))
    assert found == {f"{number}.log": b"%d\n" % number for number in range(50)}
    assert len(tails._descriptors._open) <= 4


def test_quiet_time_counts_from_the_last_growth(session: RaySession) -> None:
    """The drain waits for files that were quiet for a while."""
    clock = [100.0]
    tails = LogTails(session, monotonic=lambda: clock[0])
    log = session.logs_dir / "x"
    log.write_bytes(b"1")
    tails.scan()
    clock[0] = 105.0
    tails.scan()
    assert tails.quiet_s() == 5.0
    log.write_bytes(b"12")
    tails.scan()
    assert tails.quiet_s() == 0.0
