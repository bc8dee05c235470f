"""What a stored document may claim: times that a calendar holds, counts that an integer holds.

Documents are checked when they are read, as nobody further on can tell a wrong number from a
right one: a start in the year 300,000 would end the list of all sessions with an error, a
length of 2^63 the compile of one. Who may write to the store may write such things.
"""

from __future__ import annotations

from collections.abc import Iterable

from historyserver.reading.frames import MAX_FRAME_BYTES
from storage.backend import InvalidKeyError
from storage.layout import SessionRef, hot_segment_key, log_key
from storage.wire import (
    CatalogueEntry,
    EventFrame,
    LogEntry,
    LogFrame,
    NodeManifest,
    SessionEnd,
    SessionStart,
    WireError,
)

MAX_TIME_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""

MAX_COUNT = 2**53
"""Of bytes, events and the like: what JSON readers keep exact, and SQLite holds."""


def check_entry(entry: CatalogueEntry) -> None:
    """Raise `WireError` when the list could not show the entry."""
    _check_times(("started_ms", entry.started_ms), ("ended_ms", entry.ended_ms))
    _check_counts(("size_bytes", entry.size_bytes), ("nodes", entry.nodes), ("jobs", entry.jobs))


def check_start(start: SessionStart) -> None:
    """Raise `WireError` for a time that is none."""
    _check_times(("started_ms", start.started_ms))


def check_end(end: SessionEnd) -> None:
    """Raise `WireError` for a time that is none."""
    _check_times(("ended_ms", end.ended_ms))


def check_manifest(manifest: NodeManifest) -> None:
    """Raise `WireError` for a time or a total that is none; entries are judged one by one."""
    _check_times(("updated_ms", manifest.updated_ms))
    events = manifest.events
    _check_counts(
        ("events.dropped", events.dropped),
        ("events.quarantined", events.quarantined),
        *(("log_dropped", count) for count in manifest.log_dropped.values()),
    )


def is_event_frame(frame: EventFrame, ref: SessionRef, node_id: str) -> bool:
    """Whether a frame of a live segment can be where it is said to be."""
    return _is_place(frame.seq, frame.object_start, frame.object_length, ref, node_id)


def is_log(entry: LogEntry, ref: SessionRef, node_id: str) -> bool:
    """Whether a log can have this name, this size, and lie where it is said to."""
    try:
        log_key(ref, node_id, entry.path)
    except InvalidKeyError:
        return False
    counts = [entry.size_bytes, *(at for gap in entry.gaps for at in gap)]
    return _are_counts(counts) and all(_is_log_frame(f, ref, node_id) for f in entry.frames)


def _is_log_frame(frame: LogFrame, ref: SessionRef, node_id: str) -> bool:
    return (
        _is_place(frame.seq, frame.object_start, frame.object_length, ref, node_id)
        and 0 <= frame.log_start <= MAX_COUNT
        and 0 <= frame.log_length <= MAX_FRAME_BYTES
    )


def _is_place(seq: int, start: int, length: int, ref: SessionRef, node_id: str) -> bool:
    try:
        hot_segment_key(ref, node_id, seq)
    except InvalidKeyError:
        return False
    return 0 <= start <= MAX_COUNT and 0 <= length <= MAX_FRAME_BYTES


def _are_counts(values: Iterable[int]) -> bool:
    return all(0 <= value <= MAX_COUNT for value in values)


def _check_times(*times: tuple[str, int]) -> None:
    for name, value in times:
        if not 0 <= value <= MAX_TIME_MS:
            raise WireError(f"{name} is no time in milliseconds since 1970")


def _check_counts(*counts: tuple[str, int]) -> None:
    for name, value in counts:
        if not 0 <= value <= MAX_COUNT:
            raise WireError(f"{name} is no count")
