"""A live segment: the events and log bytes of the last seconds, as one object of zstd frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from collector.journal.segments import HotBlock
from collector.shipping.manifest import HotEvents, ManifestBook
from collector.tails import LogChangedError, LogFrameData, LogTails
from collector.tails.frames import (
    FRAME_RAW_BYTES,
    SMALL_FRAME_BYTES,
    compress,
    cut_at_line_end,
)
from storage.wire import EventFrame, LogFrame

MERGE_AT_FRAMES = 32
"""So many small frames at the end of a log are merged, which keeps manifests and the number of
live segments small: a log that gets a line every 10 s would have 8,640 frames a day."""


@dataclass(slots=True)
class HotSegment:
    """A live segment in the making; `body` is the object, the rest is for the manifest."""

    logs: list[tuple[LogFrameData, int]] = field(default_factory=list)
    """Frames with their place in the object, in the order in which the book takes them."""
    events: list[tuple[HotBlock, int, int, int]] = field(default_factory=list)
    """Blocks with place, length and number of events of their frames."""
    _parts: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def add_events(self, block: HotBlock) -> None:
        """Take a block of event lines in. Raises `OSError` when its segment is gone."""
        raw = block.read()
        data = compress(raw)
        self.events.append((block, self.size_bytes, len(data), raw.count(b"\n")))
        self._add(data)

    def add_log(self, frame: LogFrameData) -> None:
        """Take a frame of a log in."""
        self.logs.append((frame, self.size_bytes))
        self._add(frame.data)

    def _add(self, data: bytes) -> None:
        self._parts.append(data)
        self.size_bytes += len(data)

    def body(self) -> bytes:
        """The object."""
        return b"".join(self._parts)

    def hot_events(self, seq: int) -> Iterator[HotEvents]:
        """The event frames as the manifest names them."""
        for block, start, length, events in self.events:
            frame = EventFrame(seq=seq, object_start=start, object_length=length, events=events)
            yield HotEvents(frame=frame, segment=str(block.path))


def merged_frames(book: ManifestBook, tails: LogTails, incarnation: str) -> list[LogFrameData]:
    """The small frames at the end of a log as few large ones; empty when there are not many.

    The bytes come from the local file. One that changed or went is left as it is.
    """
    run = _small_run(book.log(incarnation).frames)
    if len(run) < MERGE_AT_FRAMES:
        return []
    start, end = run[0].log_start, run[-1].log_start + run[-1].log_length
    frames: list[LogFrameData] = []
    buffer = b""
    try:
        for chunk in tails.content(incarnation, start, end):
            buffer += chunk
            while len(buffer) >= FRAME_RAW_BYTES:
                raw = cut_at_line_end(buffer[:FRAME_RAW_BYTES], more_follows=True)
                frames.append(LogFrameData(incarnation, start, len(raw), compress(raw)))
                start, buffer = start + len(raw), buffer[len(raw) :]
    except (LogChangedError, OSError):
        return []
    if buffer:
        frames.append(LogFrameData(incarnation, start, len(buffer), compress(buffer)))
    return frames


def _small_run(frames: list[LogFrame]) -> list[LogFrame]:
    """The frames at the end of the log that are all small."""
    first = len(frames)
    while first and frames[first - 1].log_length < SMALL_FRAME_BYTES:
        first -= 1
    return frames[first:]
