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
from concurrent.futures import Future
from functools import partial

from collector.dashboard.kept_answers import Snapshot
from collector.shipping.event_files import EventFiles
from collector.shipping.final_logs import FinalLogs
from collector.shipping.jobs import Jobs
from collector.shipping.live_segments import LiveSegments
from collector.shipping.manifest import ManifestBook, StateError, claimed_by_others
from collector.shipping.manifest_store import ManifestStore
from collector.shipping.node_state import NodeState
from collector.shipping.parts import ShippingParts
from collector.shipping.resume import Found, look, take_over
from collector.shipping.snapshot_queue import SnapshotQueue
from collector.shipping.uploads import AGAIN_AFTER_S, Urgency, failure
from collector.tails import LogTails

log = logging.getLogger(__name__)


class NodeShipping:
    """See the module. All methods belong to one thread, but `press` and `put_snapshot`.

    Args:
        parts: which session and node, and with what.

    """

    def __init__(self, parts: ShippingParts) -> None:
        self._parts = parts
        self._pressed = self._recovered = self._looking = False
        self._look_not_before_s = float("-inf")
        self.jobs = Jobs(parts.shipper, monotonic=parts.monotonic)
        book = ManifestBook(
            session=parts.session.session_name,
            node_id=parts.session.node_id,
            role=parts.role,
            collector_version=parts.collector_version,
            path=parts.state_path,
        )
        self._had_state = _load(book)
        tails = LogTails(
            parts.session,
            restored=book.state.tails,
            claimed=claimed_by_others(parts.state_path, parts.session.node_id),
            monotonic=parts.monotonic,
        )
        manifests = ManifestStore(parts, book=book, tails=tails, jobs=self.jobs)
        self.node = NodeState(
            parts=parts, tails=tails, book=book, manifests=manifests, jobs=self.jobs
        )
        self.final_logs = FinalLogs(self.node)
        self.events = EventFiles(self.node)
        self._live = LiveSegments(self.node, self.events)
        self._snapshots = SnapshotQueue(self.node)

    def press(self) -> None:
        """Ship what there is now, without waiting for any interval; any thread."""
        self._pressed = True
        self.jobs.wake.set()

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Queue an answer of the dashboard; any thread, returns at once."""
        self._snapshots.put(snapshot)

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
        self.jobs.wake.clear()
        if scan or self._pressed:
            self.scan(final=final)
        self.jobs.collect()
        if not self._recovered:
            self._look_at_storage()
            return
        if not upload:
            return
        self.events.ship()
        if not final:
            self.final_logs.reopen()
        if hot and self._live.is_due(at_once=final or self._pressed):
            self._pressed = False
            self._live.ship()
        self.final_logs.ship_rotated_out()
        self.node.manifests.store_if_due()

    def scan(self, *, final: bool) -> None:
        """Look at the logs directory."""
        if self._parts.collect_logs:
            self.node.tails.scan(final=final)
            self._tell_logs(over=False)

    def close(self) -> None:
        """Nothing more is shipped: let go of the logs."""
        if self._parts.collect_logs:
            self._tell_logs(over=True)
        self.node.tails.close()

    def _tell_logs(self, *, over: bool) -> None:
        session = self._parts.session
        pair = (session.session_name, session.node_id)
        self._parts.metrics.tell_logs(pair, self.node.tails, over=over)

    @property
    def secured(self) -> bool:
        """Storage has all log bytes that the last scan saw, and a manifest that says so."""
        behind = self._live.busy or not self.node.manifests.current
        return self._recovered and not (behind or self.node.tails.unread_bytes())

    def store_last_manifest(self, *, ended: bool) -> None:
        """Store the manifest with all that is still not in storage told as dropped."""
        unshipped = self.events.unshipped_events() if ended else 0
        self.node.manifests.store(ended=ended, unshipped_events=unshipped)

    def _look_at_storage(self) -> None:
        """At the start: what an earlier process of this node stored."""
        if self._looking or self._parts.monotonic() < self._look_not_before_s:
            return
        self._looking = True
        work = partial(
            look,
            self.jobs.backend,
            self._parts.ref,
            self._parts.session.node_id,
            want_state=not self._had_state,
        )
        self.jobs.submit("resume", work, self._resume, urgency=Urgency.MANIFEST)

    def _resume(self, future: Future[Found]) -> None:
        self._looking = False
        if failure(future) is not None:
            self._look_not_before_s = self._parts.monotonic() + AGAIN_AFTER_S
            return
        take_over(future.result(), book=self.node.book, tails=self.node.tails)
        self._recovered = True
        self.node.manifests.touch()


def _load(book: ManifestBook) -> bool:
    try:
        return book.load()
    except StateError as error:
        log.warning("local state not usable", extra={"error": str(error)})
        return False
