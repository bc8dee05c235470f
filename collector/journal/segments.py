"""What the journal hands to the shipper: event segments on disk, and their unshipped parts.

The journal (`collector.journal`) writes every accepted event as one JSON line into the
active segment of its (session, node, category). The shipper reads these files, never
writes them, and tells the journal what is stored.

The shipper's view of the journal is the protocol `SegmentStore`: all of its methods may be
called from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from storage.layout import Category

HOT_BLOCK_BYTES = 1024 * 1024
"""A hot block holds at most this much, unless one line alone is longer."""


def category_path(category: Category) -> str:
    """The category as a relative path: `node_events` or `job_events/<hex>`."""
    return category if isinstance(category, str) else "/".join(category)


@dataclass(frozen=True, slots=True)
class Segment:
    """A sealed file of event lines: complete, never written again, ready to be a cold object.

    Every line is one JSON object as Ray sent it (no pretty printing, no newline inside)
    and ends with a newline. No torn line: the journal cuts it on recovery.
    """

    path: Path
    """`<data dir>/<session>/<node>/<category path>/<created_ns>.jsonl`; identifies the segment."""
    session: str
    node_id: str
    category: Category
    created_ns: int
    events: int
    size_bytes: int
    recovered: bool = False
    """Written by an earlier process of this collector and found on disk at start.

    What that process shipped hot of it is not known here (the manifest knows), so no hot
    block is made of it; once all recovered segments of a session are cold, the hot frames
    that the earlier process left in the manifest are superseded.
    """


@dataclass(frozen=True, slots=True)
class HotBlock:
    """A range of complete event lines, in an active or sealed segment, not yet shipped hot.

    `path` + `end` is what `SegmentStore.mark_hot` wants when the block is in storage.
    """

    path: Path
    session: str
    node_id: str
    category: Category
    start: int
    end: int

    def read(self) -> bytes:
        """The lines, each ended by a newline. Raises `OSError` when the segment is gone."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            return file.read(self.end - self.start)


class SegmentStore(Protocol):
    """What the shipper may ask of the journal; safe from any thread."""

    def hot_blocks(self) -> Iterator[HotBlock]:
        """Yield what is not marked hot yet, in the order of each segment.

        Asking again before `mark_hot` yields the same again.
        """
        ...

    def mark_hot(self, path: Path, upto: int) -> None:
        """Bytes of this segment before `upto` are in a hot object that the manifest names.

        A segment that is gone already is no error.
        """
        ...

    def sealed(self) -> Sequence[Segment]:
        """The sealed segments that are still on disk, oldest first."""
        ...

    def remove(self, segment: Segment) -> None:
        """The segment is stored as a cold object and verified: delete the local file."""
        ...
