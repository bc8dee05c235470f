"""The book behind the manifest: what supersedes what, and what survives on the local disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.shipping.manifest import HotEvents, ManifestBook, StateError, claimed_by_others
from collector.tails import LogFrameData, TailState
from collector.tails.files import FileId
from storage.wire import EventFileEntry, EventFrame, EventTotals

NODE = "ab" * 28


def book_at(path: Path, *, node_id: str = NODE) -> ManifestBook:
    return ManifestBook(
        session="session_x",
        node_id=node_id,
        role="head",
        collector_version="1",
        path=path,
        now_ms=lambda: 5,
    )


def frame(start: int, length: int, incarnation: str = "g") -> LogFrameData:
    return LogFrameData(incarnation, start, length, b"x" * 10)


def tail(size_bytes: int, *, gone: bool = False, path: str = "x.out") -> TailState:
    return TailState("g", 1, 2, path, offset=0, size_bytes=size_bytes, gone=gone)


def hot(seq: int, segment: str) -> HotEvents:
    return HotEvents(
        frame=EventFrame(seq=seq, object_start=0, object_length=10, events=3), segment=segment
    )


def test_frames_are_named_in_order(tmp_path: Path) -> None:
    """Each frame with its place in the object and in the log."""
    book = book_at(tmp_path / "s" / "state.json")
    book.add_segment(1, 20, logs=[(frame(0, 100), 0), (frame(100, 50), 10)])
    book.save([tail(150)], EventTotals())
    (entry,) = book.manifest(ended=False).logs
    assert (entry.path, entry.size_bytes, entry.key, entry.gaps) == ("x.out", 150, None, [])
    assert [(f.seq, f.object_start, f.log_start, f.log_length) for f in entry.frames] == [
        (1, 0, 0, 100),
        (1, 10, 100, 50),
    ]


def test_merged_frame_takes_the_place_of_small_ones(tmp_path: Path) -> None:
    """And their segments are not needed any more."""
    book = book_at(tmp_path / "state.json")
    for seq, start in [(1, 0), (2, 10), (3, 20)]:
        book.add_segment(seq, 10, logs=[(frame(start, 10), 0)])
    book.add_segment(4, 20, logs=[(frame(10, 20), 0), (frame(30, 5), 10)])
    book.save([tail(35)], EventTotals())
    frames = book.manifest(ended=False).logs[0].frames
    assert [(f.seq, f.log_start, f.log_length) for f in frames] == [
        (1, 0, 10),
        (4, 10, 20),
        (4, 30, 5),
    ]
    assert book.unused_segments() == [2, 3]


def test_plain_object_supersedes_frames(tmp_path: Path) -> None:
    """A whole log in one object needs no live segment."""
    book = book_at(tmp_path / "state.json")
    book.add_segment(1, 10, logs=[(frame(0, 10), 0)])
    book.log_stored("g", "logs/x.out", 10)
    book.save([tail(10)], EventTotals())
    (entry,) = book.manifest(ended=True).logs
    assert (entry.key, entry.frames, entry.gaps) == ("logs/x.out", [], [])
    assert book.unused_segments() == [1]


def test_outdated_object_counts_until_frames_tell_as_much(tmp_path: Path) -> None:
    """A log that is followed again after an end can be read whole at every moment."""
    book = book_at(tmp_path / "state.json")
    book.log_stored("g", "logs/x.out", 100)
    book.add_segment(1, 10, logs=[(frame(0, 60), 0)])
    book.save([tail(120)], EventTotals())
    assert book.manifest(ended=False).logs[0].key == "logs/x.out"
    book.add_segment(2, 10, logs=[(frame(60, 60), 0)])
    book.save([tail(120)], EventTotals())
    (entry,) = book.manifest(ended=False).logs
    assert entry.key is None
    assert entry.size_bytes == 120


@pytest.mark.parametrize(
    ("gone", "ended", "gaps", "size_bytes"),
    [
        (False, False, [], 10),
        (True, False, [(10, 25)], 25),
        (False, True, [(10, 25)], 25),
    ],
)
def test_unread_rest_is_late_or_lost(
    tmp_path: Path, *, gone: bool, ended: bool, gaps: list[tuple[int, int]], size_bytes: int
) -> None:
    """What can still be read while Ray runs is no gap; after that it is."""
    book = book_at(tmp_path / "state.json")
    book.add_segment(1, 10, logs=[(frame(0, 10), 0)])
    book.save([tail(25, gone=gone)], EventTotals())
    (entry,) = book.manifest(ended=ended).logs
    assert (entry.gaps, entry.size_bytes) == (gaps, size_bytes)


def test_cold_file_supersedes_only_its_own_frames(tmp_path: Path) -> None:
    """Events of other segments stay."""
    book = book_at(tmp_path / "state.json")
    book.add_segment(1, 10, events=[hot(1, "a.jsonl"), hot(1, "b.jsonl")])
    book.add_segment(2, 10, events=[hot(2, "a.jsonl")])
    book.event_file_stored("a.jsonl", EventFileEntry(key="k", events=6, size_bytes=9))
    manifest = book.manifest(ended=False)
    assert [f.seq for f in manifest.hot_events] == [1]
    assert [f.key for f in manifest.events.event_files] == ["k"]
    assert book.unused_segments() == [2]


def test_storing_a_file_again_names_it_once(tmp_path: Path) -> None:
    """A kill between store and note makes the next process store it again under the same key."""
    book = book_at(tmp_path / "state.json")
    for _ in range(2):
        book.event_file_stored("a", EventFileEntry(key="k", events=6, size_bytes=9))
    assert len(book.manifest(ended=False).events.event_files) == 1


def test_counts_of_earlier_processes_are_added(tmp_path: Path) -> None:
    """Each save tells what is new; the manifest tells the sum."""
    path = tmp_path / "state.json"
    first = book_at(path)
    first.save([], EventTotals(received=5, duplicates=1, stored=4))
    second = book_at(path)
    assert second.load()
    second.save([], EventTotals(received=1, stored=1))
    second.save([], EventTotals(received=1, stored=1))
    totals = second.manifest(ended=True, unshipped_events=3).events
    assert (totals.received, totals.duplicates, totals.stored, totals.dropped) == (7, 1, 6, 3)


def test_state_survives_and_numbers_go_on(tmp_path: Path) -> None:
    """The next process has the same book, and gives no segment number again."""
    path = tmp_path / "state.json"
    first = book_at(path)
    assert [first.begin_segment(), first.begin_segment()] == [1, 2]
    first.add_segment(2, 20, logs=[(frame(0, 10), 0)], events=[hot(2, "a")])
    first.save([tail(10)], EventTotals())
    second = book_at(path)
    assert second.load()
    assert second.manifest(ended=False) == first.manifest(ended=False)
    assert second.begin_segment() == 3


def test_missing_state_is_a_fresh_start(tmp_path: Path) -> None:
    """Nothing is there the first time."""
    assert not book_at(tmp_path / "state.json").load()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": 9}', b"\xff\xfe"])
def test_unusable_state_is_put_aside(tmp_path: Path, content: bytes) -> None:
    """A damaged file is told, kept for a look, and not met again."""
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(StateError):
        book_at(path).load()
    assert not book_at(path).load()
    assert (tmp_path / "state.damaged").read_bytes() == content


def test_state_of_another_node_is_not_taken(tmp_path: Path) -> None:
    """A state file that was copied around is refused."""
    path = tmp_path / "state.json"
    book_at(path, node_id="cd" * 28).save([], EventTotals())
    with pytest.raises(StateError, match="another session, node or version"):
        book_at(path).load()


def test_files_of_other_nodes_are_known(tmp_path: Path) -> None:
    """Of the same session directory; not this node's own."""
    other = book_at(tmp_path / ("cd" * 28) / "state.json", node_id="cd" * 28)
    other.save([TailState("g", 7, 8, "raylet.out", size_bytes=12)], EventTotals())
    mine = tmp_path / NODE / "state.json"
    book_at(mine).save([TailState("g", 7, 9, "x", size_bytes=1)], EventTotals())
    assert claimed_by_others(mine, NODE) == {FileId(7, 8): 12}
