"""A session on its way to storage: hot while it runs, cold at its end, whole after any kill."""

from __future__ import annotations

import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from collector.shipping.parts import ShippingSettings
from storage.backend import CommonPrefix
from storage.layout import hot_prefix, log_key, parse_event_key
from storage.local import LocalBackend
from tests.collector.shipping.shipping_kit import (
    FAST,
    NODE,
    REF,
    DiskJournal,
    Rig,
    event_line,
    eventually,
    ray_session,
)


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    (tmp_path / "store").mkdir()
    return LocalBackend(tmp_path / "store")


@pytest.fixture
def rig(tmp_path: Path, backend: LocalBackend) -> Rig:
    return Rig.make(tmp_path, backend)


def hot_objects(rig: Rig) -> list[str]:
    """Keys of the live segments there are."""
    return [
        info.key
        for info in rig.backend.list(hot_prefix(rig.ref, NODE))
        if not isinstance(info, CommonPrefix)
    ]


def test_events_and_logs_are_in_storage_within_seconds(rig: Rig) -> None:
    """While Ray runs, a reader of the manifest sees what was written a moment ago."""
    lines = [event_line(number) for number in range(30)]
    path = rig.journal.append(1, lines[:10])
    (rig.logs / "raylet.out").write_bytes(b"one\n")
    rig.shipping().start()
    eventually(lambda: rig.logs_in_storage() == {"raylet.out": b"one\n"})
    rig.journal.append(1, lines[10:])
    with (rig.logs / "raylet.out").open("ab") as file:
        file.write(b"two\n")
    eventually(lambda: rig.logs_in_storage() == {"raylet.out": b"one\ntwo\n"})
    eventually(lambda: rig.events_in_storage() == lines)
    manifest = rig.manifest()
    assert manifest.state == "running"
    assert manifest.events.event_files == []
    assert manifest.logs[0].gaps == []
    rig.journal.seal(path)
    assert rig.finish().complete


def test_sealed_segment_becomes_one_cold_object(rig: Rig) -> None:
    """It supersedes its live frames, which are deleted; the journal forgets it."""
    lines = [event_line(number) for number in range(100)]
    path = rig.journal.append(1_796_069_000_000_000_000, lines, ("job_events", "02000000"))
    rig.shipping().start()
    eventually(lambda: rig.events_in_storage() == lines)
    rig.journal.seal(path)
    eventually(lambda: rig.manifest().events.event_files != [])
    eventually(lambda: not path.exists() and hot_objects(rig) == [])
    assert rig.events_in_storage() == lines
    (entry,) = rig.manifest().events.event_files
    parsed = parse_event_key(entry.key)
    assert parsed is not None
    assert parsed.job_id == "02000000"
    rig.finish()


def test_end_makes_every_log_one_plain_object(rig: Rig) -> None:
    """KubeRay's layout: names as they were on the node, contents byte for byte, empty ones too."""
    contents = {
        "raylet.out": b"r" * 3_000_000,
        "events/event_GCS.log": b"{}\n",
        "worker with space é.err": b"x",
        "empty.out": b"",
    }
    rig.shipping().start()
    for name, content in contents.items():
        (rig.logs / name).parent.mkdir(exist_ok=True)
        (rig.logs / name).write_bytes(content)
    eventually(lambda: len(rig.manifest().logs) == 4)
    report = rig.finish()
    assert report.complete
    assert report.missing_log_bytes == 0
    manifest = rig.manifest()
    assert manifest.state == "ended"
    assert rig.logs_in_storage() == contents
    for entry in manifest.logs:
        assert entry.key == log_key(REF, NODE, entry.path)
        assert entry.frames == []
    assert hot_objects(rig) == []


def test_session_left_on_the_disk_is_finished_without_start(rig: Rig) -> None:
    """What an earlier Ray left: events and logs go straight to their final form."""
    lines = [event_line(number) for number in range(10)]
    rig.journal.append(1, lines)
    rig.journal = rig.journal.reopened()
    (rig.logs / "raylet.out").write_bytes(b"text\n")
    assert rig.finish().complete
    assert rig.events_in_storage() == lines
    assert rig.logs_in_storage() == {"raylet.out": b"text\n"}


def test_logs_rotated_out_are_whole_after_the_end(rig: Rig) -> None:
    """Every incarnation is a plain object; those that have no file any more come from the frames."""
    rig.shipping().start()
    expected: dict[str, bytes] = {}
    for number in range(4):
        if (rig.logs / "x.out.1").exists():
            (rig.logs / "x.out.1").unlink()
        if (rig.logs / "x.out").exists():
            (rig.logs / "x.out").rename(rig.logs / "x.out.1")
        (rig.logs / "x.out").write_bytes(b"incarnation %d\n" % number)

        def seen(number: int = number) -> bool:
            return rig.logs_in_storage().get("x.out") == b"incarnation %d\n" % number

        eventually(seen)
    assert rig.finish().complete
    expected = {
        "x.out": b"incarnation 3\n",
        "x.out.1": b"incarnation 2\n",
        "x.out.1.gone-1": b"incarnation 0\n",
        "x.out.1.gone-2": b"incarnation 1\n",
    }
    assert rig.logs_in_storage() == expected
    assert all(entry.key for entry in rig.manifest().logs)


def test_session_that_goes_on_after_an_orderly_end_is_followed_again(rig: Rig) -> None:
    """The collector's container was restarted: a log that grows or rotates is no stale object."""
    (rig.logs / "x.out").write_bytes(b"first\n")
    (rig.logs / "quiet.out").write_bytes(b"quiet\n")
    rig.shipping().start()
    assert rig.finish().complete
    (rig.logs / "x.out").rename(rig.logs / "x.out.1")
    (rig.logs / "x.out").write_bytes(b"second\n")
    rig.shipping().start()
    expected = {"x.out": b"second\n", "x.out.1": b"first\n", "quiet.out": b"quiet\n"}
    eventually(lambda: rig.logs_in_storage() == expected)
    assert rig.manifest().state == "running"
    assert rig.finish().complete
    assert rig.logs_in_storage() == expected
    assert {entry.key for entry in rig.manifest().logs} == {
        log_key(REF, NODE, path) for path in expected
    }


def test_many_small_frames_are_merged(rig: Rig) -> None:
    """A log that gets a line now and then does not grow the manifest by a frame each time."""
    rig.shipping().start()
    content = b""
    for number in range(45):
        line = b"line %d\n" % number
        content += line
        with (rig.logs / "slow.out").open("ab") as file:
            file.write(line)

        def seen(content: bytes = content) -> bool:
            return rig.logs_in_storage() == {"slow.out": content}

        eventually(seen)
    assert len(rig.manifest().logs[0].frames) < 20
    eventually(lambda: len(hot_objects(rig)) < 25)
    assert rig.finish().complete
    assert rig.logs_in_storage() == {"slow.out": content}


def test_other_sessions_and_nodes_are_not_touched(rig: Rig, tmp_path: Path) -> None:
    """Each shipping takes only the segments of its own session and node."""
    other = DiskJournal(tmp_path / "data", node_id="cd" * 28)
    path = other.append(1, [event_line(1)])
    other.seal(path)
    rig.journal = other
    assert rig.finish().complete
    assert path.exists()
    assert rig.manifest().events.event_files == []


def test_restarted_worker_container_is_another_node(tmp_path: Path, backend: LocalBackend) -> None:
    """The logs of the node before it stay that node's."""
    rig = Rig.make(tmp_path, backend)
    (rig.logs / "raylet.out").write_bytes(b"old\n")
    assert rig.finish().complete
    (rig.logs / "raylet.1.out").write_bytes(b"new\n")
    new = Rig(tmp_path, backend, ray_session(tmp_path, node_id="cd" * 28), rig.journal)
    assert new.finish().complete
    assert rig.logs_in_storage() == {"raylet.out": b"old\n"}
    assert new.logs_in_storage() == {"raylet.1.out": b"new\n"}


def test_a_log_that_grows_during_the_end_is_taken_again(rig: Rig) -> None:
    """A driver outside writes on for seconds after Ray is gone."""
    log = rig.logs / "driver.log"
    log.write_bytes(b"")
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            with log.open("ab") as file:
                file.write(b"line %d\n" % number)
            number += 1
            time.sleep(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    rig.shipping().start()
    time.sleep(0.1)
    rig.finish()
    stop.set()
    writer.join()
    assert rig.finish().complete, "finish can be called again"
    assert rig.logs_in_storage() == {"driver.log": log.read_bytes()}


def test_memory_does_not_grow_with_a_log(tmp_path: Path, backend: LocalBackend) -> None:
    """A log of 256 MiB is followed and put in a few MiB of memory."""
    settings = ShippingSettings(scan_interval_s=0.01, hot_interval_s=0.01)
    rig = Rig.make(tmp_path, backend, settings=settings)
    block = b"".join(b"%07d a line of a log as Ray writes it\n" % n for n in range(23_000))
    with (rig.logs / "large.out").open("wb") as file:
        for _ in range(64):
            file.write(block)
    tracemalloc.start()
    try:
        rig.shipping().start()
        size = (rig.logs / "large.out").stat().st_size
        eventually(lambda: rig.manifest().logs[0].size_bytes == size, within_s=30)
        assert rig.finish().complete
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 48 * 1024 * 1024


def test_press_ships_at_once(tmp_path: Path, backend: LocalBackend) -> None:
    """When the local disk fills, nothing waits for the interval."""
    rig = Rig.make(
        tmp_path, backend, settings=ShippingSettings(scan_interval_s=0.01, hot_interval_s=3600)
    )
    shipping = rig.shipping()
    (rig.logs / "x").write_bytes(b"1\n")
    shipping.start()
    eventually(lambda: rig.logs_in_storage() == {"x": b"1\n"})
    with (rig.logs / "x").open("ab") as file:
        file.write(b"2\n")
    time.sleep(0.1)
    assert rig.logs_in_storage() == {"x": b"1\n"}
    shipping.press()
    eventually(lambda: rig.logs_in_storage() == {"x": b"1\n2\n"})
    rig.finish()


def test_fast_settings_are_only_for_tests() -> None:
    """The defaults are what the documentation promises."""
    assert ShippingSettings().hot_interval_s == 10
    assert FAST.hot_interval_s < 1
