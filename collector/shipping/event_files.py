"""Makes a cold object of every sealed journal segment, and lets the journal forget it."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from pathlib import Path

from collector.journal.segments import Segment
from collector.shipping.final_objects import put_event_segment
from collector.shipping.node_state import NodeState
from collector.shipping.uploads import AGAIN_AFTER_S, Urgency, failure
from storage.wire import EventFileEntry

AT_ONCE = 8


class EventFiles:
    """The sealed segments of one session and node. One thread uses it."""

    def __init__(self, node: NodeState) -> None:
        self._node, self._journal = node, node.parts.journal
        self._monotonic = node.parts.monotonic
        self._busy: set[Path] = set()
        self._stored: set[Path] = set()
        self._not_before_s: dict[Path, float] = {}

    def unshipped(self) -> list[Segment]:
        """Sealed segments that are not cold yet."""
        session = self._node.parts.session
        mine = (session.session_name, session.node_id)
        return [
            segment
            for segment in self._journal.sealed()
            if (segment.session, segment.node_id) == mine and segment.path not in self._stored
        ]

    def unshipped_events(self) -> int:
        """Events of sealed segments that storage has in no form."""
        hot: dict[str, int] = {}
        for one in self._node.book.state.hot_events:
            hot[one.segment] = hot.get(one.segment, 0) + one.frame.events
        return sum(max(0, s.events - hot.get(str(s.path), 0)) for s in self.unshipped())

    def is_cold(self, path: Path) -> bool:
        """Whether this segment is a cold object, or on its way to be one."""
        return path in self._busy or path in self._stored

    def is_stored(self, path: Path) -> bool:
        """Whether this segment is a cold object."""
        return path in self._stored

    def ship(self) -> None:
        """Queue what is sealed, a few at a time, small ones first."""
        now_s = self._monotonic()
        for segment in self.unshipped():
            if len(self._busy) >= AT_ONCE:
                return
            if segment.path in self._busy or self._not_before_s.get(segment.path, 0.0) > now_s:
                continue
            self._busy.add(segment.path)
            jobs = self._node.jobs
            work = partial(
                put_event_segment, jobs.backend, self._node.parts.ref, segment, guard=jobs.guard
            )
            jobs.submit(
                "events",
                work,
                partial(self._done, segment),
                urgency=Urgency.EVENTS,
                size_bytes=segment.size_bytes,
            )

    def _done(self, segment: Segment, future: Future[EventFileEntry]) -> None:
        self._busy.discard(segment.path)
        if failure(future) is not None:
            self._not_before_s[segment.path] = self._monotonic() + AGAIN_AFTER_S
            return
        book = self._node.book
        self._stored.add(segment.path)
        book.event_file_stored(str(segment.path), future.result())
        if segment.recovered and not any(one.recovered for one in self.unshipped()):
            # Frames of which only storage knew are of segments that are cold now.
            book.supersede("")
        self._node.manifests.touch()
        self._node.manifests.after(partial(self._forget, segment))

    def _forget(self, segment: Segment) -> None:
        self._journal.remove(segment)
