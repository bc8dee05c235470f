"""Puts the newest bytes of events and logs into live segments, a few seconds after they came."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from collector.journal.segments import HotBlock
from collector.shipping.event_files import EventFiles
from collector.shipping.live_segment import MERGE_AT_FRAMES, HotSegment, merged_frames
from collector.shipping.node_state import NodeState
from collector.shipping.uploads import AGAIN_AFTER_S, Urgency, failure
from storage.backend import ExistsError, ObjectInfo
from storage.layout import hot_segment_key

_RAW_PER_SEGMENT_BYTES = 64 * 1024 * 1024
_RAW_WORTH_A_SEGMENT_BYTES = 16 * 1024 * 1024


class LiveSegments:
    """The live segments of one node. One thread uses it.

    Args:
        node: the node.
        events: its event files, whose events need no live segment.

    """

    def __init__(self, node: NodeState, events: EventFiles) -> None:
        self._node, self._events = node, events
        self._settings, self._monotonic = node.parts.settings, node.parts.monotonic
        self._busy = False
        self._stored_s = self._not_before_s = float("-inf")
        self._mergeable: set[str] = set()

    @property
    def busy(self) -> bool:
        """One is on its way, or no manifest tells of it yet."""
        return self._busy

    def is_due(self, *, at_once: bool) -> bool:
        """Whether it is time for a segment; `at_once` does not wait for the interval."""
        now_s = self._monotonic()
        if self._busy or now_s < self._not_before_s:
            return False
        if at_once or now_s - self._stored_s >= self._settings.hot_interval_s:
            return True
        return self._node.tails.unread_bytes() >= _RAW_WORTH_A_SEGMENT_BYTES

    def ship(self) -> None:
        """Make a segment of what is new, if anything is, and queue it."""
        segment = self._build()
        if segment.size_bytes:
            self._busy = True
            self._put(segment)

    def _build(self) -> HotSegment:
        segment, tails = HotSegment(), self._node.tails
        if self._mergeable:
            for frame in merged_frames(self._node.book, tails, self._mergeable.pop()):
                segment.add_log(frame)
        for block in self._my_blocks():
            if segment.size_bytes >= self._settings.hot_bytes:
                return segment
            try:
                segment.add_events(block)
            except OSError:  # gone cold meanwhile
                continue
        for frame in tails.read(max_raw_bytes=_RAW_PER_SEGMENT_BYTES):
            segment.add_log(frame)
            if segment.size_bytes >= self._settings.hot_bytes:
                break
        return segment

    def _my_blocks(self) -> Iterator[HotBlock]:
        session = self._node.parts.session
        mine = (session.session_name, session.node_id)
        for block in self._node.parts.journal.hot_blocks():
            if (block.session, block.node_id) == mine and not self._events.is_cold(block.path):
                yield block

    def _put(self, segment: HotSegment) -> None:
        node = self._node
        seq = node.book.begin_segment()
        key = hot_segment_key(node.parts.ref, node.parts.session.node_id, seq)
        body = segment.body()

        def work() -> ObjectInfo:
            return node.jobs.backend.put(key, body, create_only=True)

        node.jobs.submit("live", work, partial(self._done, segment, seq), urgency=Urgency.HOT)

    def _done(self, segment: HotSegment, seq: int, future: Future[ObjectInfo]) -> None:
        error = failure(future)
        if isinstance(error, ExistsError):
            # An earlier try that seemed to fail, or a process that was killed, stored this
            # number. What it holds is not certain, so it is given up and later deleted.
            self._node.book.state.segments[seq] = 0
            self._put(segment)
            return
        self._stored_s = self._monotonic()
        if error is not None:
            self._busy = False
            self._not_before_s = self._monotonic() + AGAIN_AFTER_S
            self._node.tails.rewind()
            return
        self._note_stored(segment, seq)
        metrics = self._node.parts.metrics
        metrics.live_segments.inc()
        metrics.live_segment_bytes.inc(segment.size_bytes)

    def _note_stored(self, segment: HotSegment, seq: int) -> None:
        book, tails = self._node.book, self._node.tails
        for frame, _ in segment.logs:
            if frame.log_start == 0 and tails.is_rewritten(frame.incarnation):
                book.log(frame.incarnation).key = None
        hot = [h for h in segment.hot_events(seq) if not self._events.is_stored(Path(h.segment))]
        book.add_segment(seq, segment.size_bytes, logs=segment.logs, events=hot)
        tails.commit(frame for frame, _ in segment.logs)
        self._mergeable.update(
            frame.incarnation
            for frame, _ in segment.logs
            if len(book.log(frame.incarnation).frames) >= MERGE_AT_FRAMES
        )
        self._node.manifests.touch()
        self._node.manifests.after(partial(self._named, segment))

    def _named(self, segment: HotSegment) -> None:
        self._busy = False
        for block, *_ in segment.events:
            self._node.parts.journal.mark_hot(block.path, block.end)
