"""Brings one node's events, logs and snapshots of one session to storage, step by step.

Nothing here waits for storage: each step looks at the disk, takes note of uploads that are
done, and queues new ones. The rules of order that make a kill at any moment harmless:

1. a live segment is stored (create-only) before the local state tells of it,
2. the local state is written before the manifest that names the segment is stored,
3. the journal is told "hot" or "remove" only after that manifest is stored,
4. live segments are deleted only after a manifest without them is stored.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from collector.journal.segments import HotBlock, SegmentStore
from collector.ray_session import RaySession
from collector.shipping.event_files import AGAIN_AFTER_S, EventFiles
from collector.shipping.final_logs import FinalLogs
from collector.shipping.live_segment import MERGE_AT_FRAMES, HotSegment, merged_frames
from collector.shipping.manifest import ManifestBook, StateError, claimed_by_others
from collector.shipping.metrics import ShippingMetrics
from collector.shipping.resume import Found, look, take_over
from collector.shipping.snapshot_queue import SnapshotQueue
from collector.shipping.uploads import DeadlineError, Shipper, Urgency, failure
from collector.tails import LogTails
from storage.backend import ExistsError, ObjectInfo
from storage.layout import SessionRef, hot_segment_key, manifest_key
from storage.wire import EventTotals, encode_manifest

Result = TypeVar("Result")

_RAW_PER_SEGMENT_BYTES = 64 * 1024 * 1024
_RAW_WORTH_A_SEGMENT_BYTES = 16 * 1024 * 1024
_HEARTBEAT_S = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShippingSettings:
    """How often and how much; the defaults are what the documentation promises."""

    scan_interval_s: float = 1.0
    hot_interval_s: float = 10.0
    """A lost node costs about this much of its logs and events."""
    hot_bytes: int = 4 * 1024 * 1024
    """A live segment is closed at this size, compressed."""
    manifest_reserve_s: float = 2.0
    """How long after the deadline the last manifest may still take."""


class Shipping:
    """See the module. All methods belong to one thread, but `snapshots.put` and `guard`.

    Args:
        ref: the session, as keys name it.
        session: the same, as it is on this disk.
        role: `head` or `worker`.
        collector_version: told in the manifest.
        journal: the events; only those of this session and node are taken.
        shipper: the upload queue, shared by all sessions of this process.
        state_path: where the local state is kept.
        counted: counts of events since it was called last.
        collect_logs: False leaves the log files alone.
        settings: how often, how much.
        metrics: what to count on.
        monotonic: the clock of intervals and deadlines.

    """

    def __init__(
        self,
        *,
        ref: SessionRef,
        session: RaySession,
        role: str,
        collector_version: str,
        journal: SegmentStore,
        shipper: Shipper,
        state_path: Path,
        counted: Callable[[], EventTotals],
        collect_logs: bool,
        settings: ShippingSettings,
        metrics: ShippingMetrics,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ref, self.session, self.shipper, self.metrics = ref, session, shipper, metrics
        self.wake = threading.Event()
        self.pressed = False
        self.cut_at_s: float | None = None
        self._journal, self._counted = journal, counted
        self._settings, self._monotonic = settings, monotonic
        self.collect_logs = collect_logs
        self.book = ManifestBook(
            session=session.session_name,
            node_id=session.node_id,
            role=role,
            collector_version=collector_version,
            path=state_path,
        )
        self._had_state = self._load()
        self.tails = LogTails(
            session,
            restored=self.book.state.tails,
            claimed=claimed_by_others(state_path, session.node_id),
            monotonic=monotonic,
        )
        self.final_logs = FinalLogs(self)
        self.events = EventFiles(self, journal, monotonic=monotonic)
        self.snapshots = SnapshotQueue(self, metrics)
        self._jobs: deque[tuple[Future[object], Callable[[Future[object]], None]]] = deque()
        self._recovered = self._looking = False
        self._hot_busy = self._manifest_busy = self._dirty = False
        self._hot_s = self._manifest_s = float("-inf")
        self._look_not_before_s = self._hot_not_before_s = float("-inf")
        self._manifest_pause_s = 0.0
        self._after_manifest: list[Callable[[], None]] = []
        self._mergeable: set[str] = set()
        self._deleting: set[int] = set()

    def _load(self) -> bool:
        try:
            return self.book.load()
        except StateError as error:
            _log.warning("local state not usable", extra={"error": str(error)})
            return False

    # -- the step ------------------------------------------------------------------------

    def step(
        self, *, scan: bool = True, final: bool = False, hot: bool = True, upload: bool = True
    ) -> None:
        """Do all that can be done now without waiting.

        Args:
            scan: look at the logs directory too.
            final: nothing more will come: do not wait for the interval of live segments.
            hot: make live segments.
            upload: False only takes note of what is done.

        """
        self.wake.clear()
        if (scan or self.pressed) and self.collect_logs:
            self.tails.scan(final=final)
            self.metrics.tell_logs(self.tails)
        self._collect()
        if not self._recovered:
            self._look_at_storage()
            return
        if not upload:
            return
        self.events.ship()
        if not final:
            self.final_logs.reopen()
        if hot:
            self._ship_hot(final=final)
        self.final_logs.ship_rotated_out()
        since_s = self._monotonic() - self._manifest_s
        if (self._dirty and since_s >= self._manifest_pause_s) or since_s >= _HEARTBEAT_S:
            self.store_manifest()

    @property
    def secured(self) -> bool:
        """Storage has all log bytes that the last scan saw, and a manifest that says so."""
        behind = self._hot_busy or self._dirty or self._manifest_busy
        return self._recovered and not (behind or self.tails.unread_bytes())

    @property
    def manifest_busy(self) -> bool:
        """A manifest is on its way."""
        return self._manifest_busy

    @property
    def manifest_current(self) -> bool:
        """Storage has a manifest that tells all that the book has."""
        return not (self._manifest_busy or self._dirty)

    @property
    def idle(self) -> bool:
        """No upload waits or runs."""
        return not self._jobs

    def submit(
        self,
        kind: str,
        work: Callable[[], Result],
        done: Callable[[Future[Result]], None],
        *,
        urgency: Urgency,
        size_bytes: int = 0,
    ) -> None:
        """Queue an upload whose outcome `done` learns in a later step."""
        future = self.shipper.submit(kind, work, urgency=urgency, size_bytes=size_bytes)
        self._jobs.append((future, done))  # type: ignore[arg-type]
        future.add_done_callback(lambda _: self.wake.set())

    def cancel(self) -> None:
        """Drop all uploads that are queued; running ones end by themselves."""
        for future, _ in list(self._jobs):
            future.cancel()

    def guard(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The same chunks, until the deadline of `finish`."""
        for chunk in chunks:
            if self.cut_at_s is not None and self._monotonic() >= self.cut_at_s:
                raise DeadlineError("not done within the time of the shutdown")
            yield chunk

    def _collect(self) -> None:
        for _ in range(len(self._jobs)):
            future, done = self._jobs.popleft()
            if future.done():
                done(future)
            else:
                self._jobs.append((future, done))

    # -- the start -----------------------------------------------------------------------

    def _look_at_storage(self) -> None:
        if self._looking or self._monotonic() < self._look_not_before_s:
            return
        self._looking = True
        work = partial(
            look,
            self.shipper.backend,
            self.ref,
            self.session.node_id,
            want_state=not self._had_state,
        )
        self.submit("resume", work, self._resume, urgency=Urgency.MANIFEST)

    def _resume(self, future: Future[Found]) -> None:
        self._looking = False
        if failure(future) is not None:
            self._look_not_before_s = self._monotonic() + AGAIN_AFTER_S
            return
        take_over(future.result(), book=self.book, tails=self.tails)
        self._recovered = self._dirty = True

    # -- live segments -------------------------------------------------------------------

    def _ship_hot(self, *, final: bool) -> None:
        if self._hot_busy or self._monotonic() < self._hot_not_before_s:
            return
        waited_s = self._monotonic() - self._hot_s
        due = final or self.pressed or waited_s >= self._settings.hot_interval_s
        if not due and self.tails.unread_bytes() < _RAW_WORTH_A_SEGMENT_BYTES:
            return
        self.pressed = False
        segment = self._build_hot()
        if segment.size_bytes:
            self._hot_busy = True
            self._put_hot(segment)

    def _build_hot(self) -> HotSegment:
        segment = HotSegment()
        if self._mergeable:
            generation = self._mergeable.pop()
            for frame in merged_frames(self.book, self.tails, generation):
                segment.add_log(frame)
        for block in self._my_hot_blocks():
            if segment.size_bytes >= self._settings.hot_bytes:
                return segment
            try:
                segment.add_events(block)
            except OSError:  # gone cold meanwhile
                continue
        for frame in self.tails.read(max_raw_bytes=_RAW_PER_SEGMENT_BYTES):
            segment.add_log(frame)
            if segment.size_bytes >= self._settings.hot_bytes:
                break
        return segment

    def _my_hot_blocks(self) -> Iterator[HotBlock]:
        mine = (self.session.session_name, self.session.node_id)
        for block in self._journal.hot_blocks():
            if (block.session, block.node_id) == mine and not self.events.is_cold(block.path):
                yield block

    def _put_hot(self, segment: HotSegment) -> None:
        seq = self.book.begin_segment()
        key = hot_segment_key(self.ref, self.session.node_id, seq)
        body = segment.body()

        def work() -> ObjectInfo:
            return self.shipper.backend.put(key, body, create_only=True)

        done = partial(self._hot_stored, segment, seq)
        self.submit("hot", work, done, urgency=Urgency.HOT)

    def _hot_stored(self, segment: HotSegment, seq: int, future: Future[ObjectInfo]) -> None:
        error = failure(future)
        if isinstance(error, ExistsError):
            # An earlier try that seemed to fail, or a process that was killed, stored this
            # number. What it holds is not certain, so it is given up and later deleted.
            self.book.state.segments[seq] = 0
            self._put_hot(segment)
            return
        self._hot_s = self._monotonic()
        if error is not None:
            self._hot_busy = False
            self._hot_not_before_s = self._monotonic() + AGAIN_AFTER_S
            self.tails.rewind()
            return
        for frame, _ in segment.logs:
            if frame.log_start == 0 and self.tails.is_rewritten(frame.generation):
                self.book.log(frame.generation).key = None
        hot = [h for h in segment.hot_events(seq) if not self.events.is_stored(Path(h.segment))]
        self.book.add_segment(seq, segment.size_bytes, logs=segment.logs, events=hot)
        self.tails.commit(frame for frame, _ in segment.logs)
        self._mergeable.update(
            frame.generation
            for frame, _ in segment.logs
            if len(self.book.log(frame.generation).frames) >= MERGE_AT_FRAMES
        )
        self.metrics.hot_segments.inc()
        self.metrics.hot_bytes.inc(segment.size_bytes)
        self._dirty = True
        self.after_manifest(partial(self._hot_named, segment))

    def _hot_named(self, segment: HotSegment) -> None:
        self._hot_busy = False
        for block, *_ in segment.events:
            self._journal.mark_hot(block.path, block.end)

    # -- the manifest --------------------------------------------------------------------

    def touch(self) -> None:
        """The book changed: a new manifest is needed."""
        self._dirty = True

    def after_manifest(self, act: Callable[[], None]) -> None:
        """Do this when a manifest that tells of the book as it is now has been stored."""
        self._after_manifest.append(act)

    def save(self) -> None:
        """Write the local state. On a full disk it stays old: after a kill more is done again."""
        try:
            self.book.save(self.tails.states(), self._counted())
        except OSError as error:
            _log.warning("local state not written", extra={"error": str(error)})

    def store_manifest(self, *, ended: bool = False) -> None:
        """Store the manifest, unless one is on its way, which a later step follows up."""
        if self._manifest_busy:
            return
        self._manifest_busy, self._dirty = True, False
        self._manifest_s = self._monotonic()
        self.save()
        unshipped = self.events.unshipped_events() if ended else 0
        data = encode_manifest(self.book.manifest(ended=ended, unshipped_events=unshipped))
        key = manifest_key(self.ref, self.session.node_id)
        after, self._after_manifest = self._after_manifest, []
        unused = self.book.unused_segments()

        def work() -> ObjectInfo:
            return self.shipper.backend.put(key, data)

        done = partial(self._manifest_stored, after, unused)
        self.submit("manifest", work, done, urgency=Urgency.MANIFEST)

    def _manifest_stored(
        self, after: list[Callable[[], None]], unused: list[int], future: Future[ObjectInfo]
    ) -> None:
        self._manifest_busy = False
        # A long manifest is not stored again and again: at most a tenth of the time goes there.
        took_s = self._monotonic() - self._manifest_s
        self._manifest_pause_s = min(took_s * 10, self._settings.hot_interval_s)
        if failure(future) is not None:
            self._after_manifest[:0] = after
            self._dirty = True
            self._manifest_pause_s = AGAIN_AFTER_S
            return
        for act in after:
            try:
                act()
            except OSError as error:  # a file that cannot be deleted must not stop the rest
                _log.warning("journal not told", extra={"error": str(error)})
        for seq in unused:
            if seq not in self._deleting:
                self._deleting.add(seq)
                key = hot_segment_key(self.ref, self.session.node_id, seq)
                work = partial(self.shipper.backend.delete, key)
                self.submit("delete", work, partial(self._deleted, seq), urgency=Urgency.CLEANING)

    def _deleted(self, seq: int, future: Future[None]) -> None:
        self._deleting.discard(seq)
        if failure(future) is None:
            self.book.state.segments.pop(seq, None)
