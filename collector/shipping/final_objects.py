"""Final objects in KubeRay's layout: event files, logs and kept answers, each verified."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from collector.journal.segments import Segment
from collector.tails.frames import decompress
from storage.backend import Backend, IntegrityError
from storage.layout import SessionRef, event_key, hot_segment_key
from storage.wire import EventFileEntry, LogFrame

_GZIP_LEVEL = 4
"""Measured on events of Ray 2.55: 1.06 times the size of level 6 in 0.6 of its time."""
_GZIP_WINDOW = 31
_READ_BYTES = 256 * 1024

Guard = Callable[[Iterator[bytes]], Iterator[bytes]]
"""Wraps a body so that a deadline can end it."""


def gzip_chunks(path: Path) -> Iterator[bytes]:
    """The file's content as one gzip member; the same bytes each time (no name, no date)."""
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    with path.open("rb") as file:
        while chunk := file.read(_READ_BYTES):
            if data := packer.compress(chunk):
                yield data
    yield packer.flush()


def put_event_segment(
    backend: Backend, ref: SessionRef, segment: Segment, *, guard: Guard
) -> EventFileEntry:
    """Store a sealed segment as `.jsonl.gz`. Doing it again stores the same again."""
    key = event_key(ref, segment.node_id, segment.category, segment.created_ns)
    size_bytes = put_verified(backend, key, guard(gzip_chunks(segment.path)))
    return EventFileEntry(key=key, events=segment.events, size_bytes=size_bytes)


def put_verified(backend: Backend, key: str, chunks: Iterable[bytes]) -> int:
    """Put a stream and make sure that storage has all of it; returns its size.

    Raises `IntegrityError` when storage tells of another size.
    """
    sent_bytes = 0

    def counted() -> Iterator[bytes]:
        nonlocal sent_bytes
        for chunk in chunks:
            sent_bytes += len(chunk)
            yield chunk

    backend.put(key, counted())
    stored_bytes = backend.head(key).size_bytes
    if stored_bytes != sent_bytes:
        raise IntegrityError(f"{key}: {sent_bytes} bytes sent, {stored_bytes} stored")
    return sent_bytes


def frame_chunks(
    backend: Backend, ref: SessionRef, node_id: str, frames: Iterable[LogFrame]
) -> Iterator[bytes]:
    """The content of a log, read back from the live segments that hold it."""
    for frame in frames:
        key = hot_segment_key(ref, node_id, frame.seq)
        data = b"".join(backend.get_range(key, frame.object_start, frame.object_length))
        yield decompress(data, raw_bytes=frame.log_length)
