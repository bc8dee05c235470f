"""One segment file that is being written."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from collector.journal.segments import Segment
from storage.layout import Category


@dataclass(frozen=True, slots=True, order=True)
class SegmentKey:
    """What a segment belongs to; each has one active segment at a time."""

    session: str
    node_id: str
    category: Category


class ActiveSegment:
    """An open segment file. Appended to by one thread; synced by another.

    `size_bytes` always stands at the end of a complete line.
    """

    def __init__(self, path: Path, key: SegmentKey, *, created_ns: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.key = key
        self.created_ns = created_ns
        self.opened_s = time.monotonic()
        """Its age is told by this clock, which nobody sets back."""
        self.size_bytes = 0
        self.events = 0
        self.unsynced_bytes = 0
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        self._sync_lock = threading.Lock()

    def append(self, lines: bytes, events: int) -> None:
        """Write complete lines with one write; on failure the file is as it was before.

        Raises `OSError`. A write that the disk took only in part is undone, so that no
        reader sees a torn line.
        """
        view = memoryview(lines)
        written = 0
        try:
            while written < len(view):
                written += os.pwrite(self._handle, view[written:], self.size_bytes + written)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self.size_bytes)
            raise
        self.size_bytes += written
        self.unsynced_bytes += written
        self.events += events

    def sync(self) -> bool:
        """Bring what was written to the device; False when there was nothing to do."""
        with self._sync_lock:
            if not self.unsynced_bytes or self._handle < 0:
                return False
            self.unsynced_bytes = 0
            os.fdatasync(self._handle)
            return True

    def seal(self) -> Segment:
        """Sync and close; nothing is appended after this."""
        try:
            self.sync()
        finally:
            with self._sync_lock:
                os.close(self._handle)
                self._handle = -1
        return self.as_segment()

    def as_segment(self) -> Segment:
        """The segment as it stands."""
        return Segment(
            path=self.path,
            session=self.key.session,
            node_id=self.key.node_id,
            category=self.key.category,
            created_ns=self.created_ns,
            events=self.events,
            size_bytes=self.size_bytes,
        )
