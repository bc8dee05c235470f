"""The dashboard answers that wait for storage: of each endpoint at most one, the newest."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial

from collector.dashboard.kept_answers import Snapshot, put_snapshot
from collector.shipping.metrics import ShippingMetrics
from collector.shipping.owner import ShippingOwner
from collector.shipping.uploads import Urgency, failure


class SnapshotQueue:
    """Snapshots of one session on their way. `put` may be called from any thread."""

    def __init__(self, owner: ShippingOwner, metrics: ShippingMetrics) -> None:
        self._owner, self._metrics = owner, metrics
        self._waiting: dict[str, Snapshot] = {}
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether any is not in storage yet."""
        return bool(self._waiting)

    def put(self, snapshot: Snapshot) -> None:
        """Queue an answer; one of the same endpoint that waits already is replaced."""
        with self._lock:
            waits = snapshot.name in self._waiting
            self._waiting[snapshot.name] = snapshot
        if not waits:
            self._submit(snapshot.name)

    def _submit(self, name: str) -> None:
        owner = self._owner

        def work() -> Snapshot:
            with self._lock:
                snapshot = self._waiting[name]
            put_snapshot(owner.shipper.backend, owner.ref, snapshot)
            return snapshot

        owner.submit("snapshot", work, partial(self._stored, name), urgency=Urgency.SMALL)

    def _stored(self, name: str, future: Future[Snapshot]) -> None:
        error = failure(future)
        with self._lock:
            newer = error is None and self._waiting[name] is not future.result()
            if not newer:
                del self._waiting[name]
        if newer:
            self._submit(name)
        elif error is None:
            self._metrics.snapshots_stored.inc()
