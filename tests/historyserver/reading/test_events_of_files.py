"""Event files of every generation are read as the same lines."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from historyserver.reading.damage import DamageLog
from historyserver.reading.events import open_events
from historyserver.reading.frames import SourceChangedError
from historyserver.reading.source import EventFile
from storage.backend import Backend, UnavailableError
from storage.faults import Fault, FaultyBackend, Verb
from storage.local import LocalBackend
from tests.historyserver.reading.stored import HEAD

EVENTS = [{"eventId": f"id{n}", "eventType": "TASK_LIFECYCLE_EVENT"} for n in range(50)]
LINES = b"".join(json.dumps(event).encode() + b"\n" for event in EVENTS)
ARRAY = json.dumps(EVENTS).encode()


def file_of(store: LocalBackend, body: bytes, framing: str = "plain", **more: object) -> EventFile:
    info = store.put("events", body)
    frames = more.get("frames", ())
    assert isinstance(frames, tuple)
    return EventFile("events", HEAD, info.size_bytes, info.etag, framing, frames)


def events_of(store: Backend, file: EventFile, damage: DamageLog) -> list[object]:
    return [
        json.loads(line)
        for block in open_events(store, file, damage)
        for line in block.splitlines()
        if line
    ]


@pytest.mark.parametrize(
    "body",
    [LINES, ARRAY, b"\n \n" + LINES, b" \n" + ARRAY, b"\xef\xbb\xbf" + LINES, LINES[:-1]],
    ids=["lines", "array", "space-lines", "space-array", "bom", "no-last-newline"],
)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("framing", ["plain", "gzip"])
def test_the_content_tells_how_it_is_framed(
    store: LocalBackend, damage: DamageLog, body: bytes, packed: bool, framing: str
) -> None:
    """Lines or array, gzip or not, whatever the name says: some stores unpack while they serve."""
    file = file_of(store, gzip.compress(body) if packed else body, framing)
    assert events_of(store, file, damage) == EVENTS
    assert not damage.items


@pytest.mark.parametrize("body", [b"", gzip.compress(b"", mtime=0), b"[]", b"\n"])
def test_an_empty_file_has_no_events(store: LocalBackend, damage: DamageLog, body: bytes) -> None:
    """And is no damage."""
    assert events_of(store, file_of(store, body), damage) == []
    assert not damage.items


@settings(deadline=None, max_examples=40)
@given(cut=st.integers(1, len(gzip.compress(ARRAY)) - 1))
def test_a_gzip_array_truncated_anywhere_keeps_a_prefix(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    """Both losses are told: of the gzip stream and of the array in it."""
    store = LocalBackend(tmp_path_factory.mktemp("cut"))
    damage = DamageLog()
    got = events_of(store, file_of(store, gzip.compress(ARRAY)[:cut], "gzip"), damage)
    assert got == EVENTS[: len(got)]
    assert damage.items


def test_a_file_that_is_gone_is_counted(store: LocalBackend, damage: DamageLog) -> None:
    """Final files are never deleted by collectors, so this is a loss and no reason to stop."""
    assert events_of(store, EventFile("gone", HEAD, 9, "", "plain"), damage) == []
    assert damage.counts() == {"object_gone": 1}


def test_a_store_that_fails_is_no_damage(store: LocalBackend, damage: DamageLog) -> None:
    """What cannot be reached now must not be compiled as if it were lost."""
    file = file_of(store, LINES)

    failing = FaultyBackend(store, [Fault(verb=Verb.GET, error=UnavailableError, after=100)])
    with pytest.raises(UnavailableError):
        events_of(failing, file, damage)
    assert not damage.items


@pytest.mark.parametrize("lines", [1, 20])
def test_a_read_that_ends_early_is_counted(
    store: LocalBackend, damage: DamageLog, lines: int
) -> None:
    """Also when it ends between two lines, where nothing looks torn."""
    file = file_of(store, LINES)
    cut_at = len(b"".join(LINES.splitlines(keepends=True)[:lines]))
    short = FaultyBackend(store, [Fault(verb=Verb.GET, cut_at=cut_at)])
    assert events_of(short, file, damage) == EVENTS[:lines]
    assert [(i.reason.value, i.size_bytes) for i in damage.items] == [
        ("short_object", len(LINES) - cut_at)
    ]


def test_a_flipped_byte_spoils_its_event_and_one_beside_it(store: LocalBackend) -> None:
    """In an array; in lines the bad line reaches the caller, who counts it."""
    file = file_of(store, ARRAY)
    for corrupt_at in range(1, len(ARRAY), 7):
        damage = DamageLog()
        flipped = FaultyBackend(store, [Fault(verb=Verb.GET, corrupt_at=corrupt_at)])
        got = [line for b in open_events(flipped, file, damage) for line in b.splitlines()]
        lost = [event for event in EVENTS if json.dumps(event).encode() not in got]
        assert len(lost) <= 2


def segment(*frames: bytes) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    packed = [zstandard.compress(frame) for frame in frames]
    starts = [sum(map(len, packed[:n])) for n in range(len(packed))]
    return b"".join(packed), tuple(zip(starts, map(len, packed), strict=True))


def test_frames_of_a_live_segment_are_read(store: LocalBackend, damage: DamageLog) -> None:
    """Only those that the manifest says hold events."""
    half = LINES.index(b"id25") - len(b'{"eventId": "')
    body, frames = segment(LINES[:half], b"a log\n" * 50_000, LINES[half:])
    file = file_of(store, body, "segment", frames=(frames[0], frames[2]))
    assert events_of(store, file, damage) == EVENTS
    assert not damage.items


def test_a_segment_that_no_manifest_names_tells_events_from_logs(
    store: LocalBackend, damage: DamageLog
) -> None:
    """Ray's event logs are JSON lines too and must not be folded as events."""
    ray_log = b'{"event_id": "1", "severity": "INFO"}\n'
    body, _ = segment(LINES, b"plain text\n", ray_log, b"")
    assert events_of(store, file_of(store, body, "segment"), damage) == EVENTS
    assert damage.counts() == {"not_an_event_frame": 3}


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_torn_segment_keeps_its_whole_frames(
    store: LocalBackend, damage: DamageLog, cut: int
) -> None:
    """The last frame has lost its end."""
    body, frames = segment(LINES, LINES)
    file = file_of(store, body[:-cut], "segment", frames=frames)
    assert events_of(store, file, damage) == EVENTS
    assert damage.counts() == {"corrupt_frame": 1}
    unnamed = DamageLog()
    assert events_of(store, file_of(store, body[:-cut], "segment"), unnamed) == EVENTS
    assert unnamed.counts() == {"corrupt_frame": 1}


def test_a_superseded_segment_asks_to_locate_again(store: LocalBackend, damage: DamageLog) -> None:
    """Its events are in a final file now: reading on without them would lose them."""
    file = EventFile("gone.seg", HEAD, 9, "", "segment", ((0, 9),))
    with pytest.raises(SourceChangedError):
        events_of(store, file, damage)


def test_frames_close_together_come_with_one_read(store: LocalBackend, damage: DamageLog) -> None:
    """A read of an object store costs tens of milliseconds; frames far apart are read apart."""
    body, frames = segment(*[LINES] * 10)
    file = file_of(store, body, "segment", frames=frames)
    counting = FaultyBackend(store)
    assert len(events_of(counting, file, damage)) == 500
    assert [verb for verb, _ in counting.calls] == [Verb.GET_RANGE]
