"""Makes a cold object of every sealed journal segment, and lets the journal forget it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from collector.journal.segments import Segment, SegmentStore
from collector.shipping.final_objects import put_event_segment
from collector.shipping.owner import ShippingOwner
from collector.shipping.uploads import Urgency, failure
from storage.wire import EventFileEntry

AT_ONCE = 8
AGAIN_AFTER_S = 10.0
"""What storage refused for good, or could not be read, is tried again after this: someone may
have put it right."""


class EventFiles:
    """The sealed segments of one session and node. One thread uses it.

    Args:
        owner: the shipping that this is a part of.
        journal: where the segments are.
        monotonic: the clock of pauses.

    """

    def __init__(
        self, owner: ShippingOwner, journal: SegmentStore, *, monotonic: Callable[[], float]
    ) -> None:
        self._owner, self._journal, self._monotonic = owner, journal, monotonic
        self._busy: set[Path] = set()
        self._stored: set[Path] = set()
        self._not_before_s: dict[Path, float] = {}

    def unshipped(self) -> list[Segment]:
        """Sealed segments that are not cold yet."""
        session = self._owner.session
        mine = (session.session_name, session.node_id)
        return [
            segment
            for segment in self._journal.sealed()
            if (segment.session, segment.node_id) == mine and segment.path not in self._stored
        ]

    def unshipped_events(self) -> int:
        """Events of sealed segments that storage has in no form."""
        hot: dict[str, int] = {}
        for one in self._owner.book.state.hot_events:
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
            owner = self._owner
            work = partial(
                put_event_segment, owner.shipper.backend, owner.ref, segment, guard=owner.guard
            )
            owner.submit(
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
        book = self._owner.book
        self._stored.add(segment.path)
        book.event_file_stored(str(segment.path), future.result())
        if segment.recovered and not any(one.recovered for one in self.unshipped()):
            # Frames of which only storage knew are of segments that are cold now.
            book.supersede("")
        self._owner.touch()
        self._owner.after_manifest(partial(self._forget, segment))

    def _forget(self, segment: Segment) -> None:
        self._journal.remove(segment)
