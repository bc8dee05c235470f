"""The journal: which segments there are, their rotation, and the limits on disk."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collector.journal.active import ActiveSegment, SegmentKey
from collector.journal.recovery import PENDING_NODE, last_lines, recover
from collector.journal.segments import HOT_BLOCK_BYTES, HotBlock, Segment, category_path
from collector.metrics import CollectorMetrics, JournalOperation
from storage.layout import Category

log = logging.getLogger(__name__)

MAX_ACTIVE = 128
"""Open segment files at most; beyond it the one opened first is sealed."""

PRESSED_S = 2.0
"""Above the cap segments are sealed at this age."""

SYNC_INTERVAL_S = 1.0
SYNC_BYTES = 1024 * 1024


class NoSpaceError(Exception):
    """The disk has no room for more; the sender is told to come again."""


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """When segments are sealed, and how much disk the journal may take."""

    rotation_interval_s: float
    max_segment_bytes: int
    cap_bytes: int
    """Above it the journal is pressed: everything is sealed and shipped as fast as storage takes
    it. Events are still accepted, since Ray drops what it cannot hand over."""
    reserve_bytes: int
    """Less free space than this on the file system, and events are refused (503)."""


class Journal:
    """Segments on disk for every (session, node, category); implements `SegmentStore`.

    `append`, `rotate` and the `seal_*` methods are for the disk thread; the methods of
    `SegmentStore` and `sync` may be called from any thread.

    Args:
        data_dir: the root of `<session>/<node>/<category>/<created_ns>.jsonl`.
        limits: see `JournalLimits`.
        metrics: gauges and counters of the journal.
        before_seal: called before sealed segments become visible to the shipper, so that
            what can only be read from them is saved first.

    """

    def __init__(
        self,
        data_dir: Path,
        *,
        limits: JournalLimits,
        metrics: CollectorMetrics,
        before_seal: Callable[[], None] = lambda: None,
    ) -> None:
        self._data_dir = data_dir
        self._limits = limits
        self._metrics = metrics
        self._before_seal = before_seal
        self._lock = threading.Lock()
        self._active: dict[SegmentKey, ActiveSegment] = {}
        self._sealed: dict[Path, Segment] = {}
        self._hot: dict[Path, int] = {}
        self._sealed_bytes = 0
        self._last_ns = 0
        self._unsynced_bytes = 0
        self.sync_wanted = threading.Event()
        data_dir.mkdir(parents=True, exist_ok=True)

    # --- recovery -----------------------------------------------------------------------

    def recover(self, ids: int) -> Iterator[bytes]:
        """Take over what an earlier process left, and yield its last `ids` lines.

        The lines are for the dedupe window. The segments count as sealed.
        """
        found = recover(self._data_dir)
        self._metrics.torn_bytes.inc(found.torn_bytes)
        with self._lock:
            for segment in found.segments:
                self._sealed[segment.path] = segment
                self._sealed_bytes += segment.size_bytes
        self._gauge()
        return last_lines(found.segments, ids)

    # --- the disk thread ----------------------------------------------------------------

    def check_space(self, size_bytes: int) -> None:
        """Raise `NoSpaceError` when so much more would leave less than the reserve."""
        if free_bytes(self._data_dir) < self._limits.reserve_bytes + size_bytes:
            raise NoSpaceError(f"{self._data_dir}: the file system is full")

    def append(self, key: SegmentKey, lines: Sequence[bytes]) -> None:
        """Write lines (without newlines) to the active segment of `key` with one write.

        When this returns they are in the page cache: a killed process does not lose them.
        Raises `OSError`, and then none of them is in the journal.
        """
        data = b"\n".join(lines) + b"\n"
        try:
            segment = self._active.get(key) or self._open(key)
            segment.append(data, len(lines))
        except OSError:
            self._count_error(JournalOperation.APPEND)
            raise
        self._unsynced_bytes += len(data)
        if self._unsynced_bytes >= SYNC_BYTES:
            self.sync_wanted.set()
        if segment.size_bytes >= self._limits.max_segment_bytes:
            self._seal([segment])

    def rotate(self) -> None:
        """Seal what is old enough; much younger ones too, while the journal is over its cap."""
        pressed = self.pressed
        self._metrics.journal_pressed.set(pressed)
        limit_s = self._limits.rotation_interval_s
        oldest_s = time.monotonic() - (min(limit_s, PRESSED_S) if pressed else limit_s)
        self._seal([s for s in self._active.values() if s.opened_s <= oldest_s])
        self._gauge()

    def seal_session(self, session: str) -> None:
        """Seal every active segment of a session; later events of it open new ones."""
        self._seal([s for s in self._active.values() if s.key.session == session])

    def seal_all(self) -> None:
        """Seal everything; the journal stays usable."""
        self._seal(list(self._active.values()))

    def adopt(self, session: str, node_id: str) -> None:
        """File the session's events that named no node under `node_id`, now that it is known."""
        self._seal(
            [
                active
                for active in self._active.values()
                if active.key.session == session and active.key.node_id == PENDING_NODE
            ]
        )
        with self._lock:
            pending = [s for s in self._sealed.values() if _is_pending(s) and s.session == session]
        for segment in pending:
            directory = self._data_dir / session / node_id / category_path(segment.category)
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / segment.path.name
            segment.path.rename(path)
            with self._lock:
                del self._sealed[segment.path]
                self._sealed[path] = replace(segment, path=path, node_id=node_id)

    # --- any thread ---------------------------------------------------------------------

    def sync(self) -> None:
        """Bring everything appended so far to the device."""
        self._unsynced_bytes = 0
        with self._lock:
            active = list(self._active.values())
        for segment in active:
            if segment.sync():
                self._metrics.syncs.inc()

    @property
    def size_bytes(self) -> int:
        """What the segments take on disk."""
        with self._lock:
            return self._sealed_bytes + sum(s.size_bytes for s in self._active.values())

    @property
    def pressed(self) -> bool:
        """Whether the segments take more than the cap."""
        return self.size_bytes > self._limits.cap_bytes

    def sealed(self) -> Sequence[Segment]:
        """The sealed segments that are still on disk, oldest first."""
        with self._lock:
            found = [segment for segment in self._sealed.values() if not _is_pending(segment)]
        return sorted(found, key=lambda segment: segment.created_ns)

    def sessions(self) -> set[tuple[str, str]]:
        """The (session, node) pairs that have segments here; `pending` for no known node."""
        with self._lock:
            pairs = {(s.session, s.node_id) for s in self._sealed.values()}
            return pairs | {(key.session, key.node_id) for key in self._active}

    def remove(self, segment: Segment) -> None:
        """Delete a segment that is in cold storage; one that is gone already is no error."""
        segment.path.unlink(missing_ok=True)
        with self._lock:
            self._hot.pop(segment.path, None)
            if self._sealed.pop(segment.path, None) is not None:
                self._sealed_bytes -= segment.size_bytes
        self._gauge()

    def mark_hot(self, path: Path, upto: int) -> None:
        """Bytes of this segment before `upto` are in a hot object that the manifest names."""
        with self._lock:
            if path in self._sealed or any(s.path == path for s in self._active.values()):
                self._hot[path] = max(upto, self._hot.get(path, 0))

    def hot_blocks(self) -> Iterator[HotBlock]:
        """Yield the complete lines that are not marked hot, in blocks of about 1 MiB."""
        with self._lock:
            segments = [s for s in self._sealed.values() if not s.recovered]
            segments += [active.as_segment() for active in self._active.values()]
            hot = dict(self._hot)
        for segment in sorted(segments, key=lambda segment: segment.created_ns):
            if not _is_pending(segment):
                yield from _blocks(segment, hot.get(segment.path, 0))

    # --- inside -------------------------------------------------------------------------

    def _open(self, key: SegmentKey) -> ActiveSegment:
        if len(self._active) >= MAX_ACTIVE:
            self._seal([min(self._active.values(), key=lambda segment: segment.created_ns)])
        created_ns = max(time.time_ns(), self._last_ns + 1)
        self._last_ns = created_ns
        directory = self._data_dir / key.session / key.node_id / category_path(key.category)
        segment = ActiveSegment(directory / f"{created_ns}.jsonl", key, created_ns=created_ns)
        with self._lock:
            self._active[key] = segment
        return segment

    def _seal(self, segments: Sequence[ActiveSegment]) -> None:
        if not segments:
            return
        try:
            self._before_seal()
        except OSError as error:  # a full disk is no reason to keep segments from storage
            self._count_error(JournalOperation.SAVE_IDS)
            log.error("event ids not saved", extra={"error": str(error)})
        for active in segments:
            segment = self._sealed_segment(active)
            with self._lock:
                del self._active[active.key]
                if segment.size_bytes:
                    self._sealed[segment.path] = segment
                    self._sealed_bytes += segment.size_bytes
            if not segment.size_bytes:
                segment.path.unlink(missing_ok=True)

    def _sealed_segment(self, active: ActiveSegment) -> Segment:
        """Seal; a failing sync is told, the content is in the page cache all the same."""
        try:
            return active.seal()
        except OSError as error:
            self._count_error(JournalOperation.SEAL)
            log.error("segment not synced", extra={"path": str(active.path), "error": str(error)})
            return active.as_segment()

    def _count_error(self, operation: JournalOperation) -> None:
        self._metrics.journal_errors.labels(operation.value).inc()

    def _gauge(self) -> None:
        self._metrics.journal_bytes.set(self.size_bytes)
        self._metrics.journal_segments.set(len(self._sealed) + len(self._active))


def free_bytes(directory: Path) -> int:
    """Free space for ordinary users on the file system of `directory`."""
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


def _is_pending(segment: Segment) -> bool:
    return segment.node_id == PENDING_NODE


def _blocks(segment: Segment, start: int) -> Iterator[HotBlock]:
    """Cut a segment's unshipped part at line ends."""
    while start < segment.size_bytes:
        end = _block_end(segment, start)
        yield HotBlock(segment.path, segment.session, segment.node_id, segment.category, start, end)
        start = end


def _block_end(segment: Segment, start: int) -> int:
    """Where the block that begins at `start` ends: the last line end within its size."""
    if segment.size_bytes - start <= HOT_BLOCK_BYTES:
        return segment.size_bytes
    with segment.path.open("rb") as file:
        file.seek(start)
        found = file.read(HOT_BLOCK_BYTES).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        file.seek(start)
        return min(segment.size_bytes, start + len(file.readline()))


__all__ = ["Category", "Journal", "JournalLimits", "NoSpaceError", "SegmentKey"]
