"""The dashboard answers that wait for storage: of each endpoint at most one, the newest."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial

from collector.dashboard.kept_answers import Snapshot, put_snapshot
from collector.shipping.node_state import NodeState
from collector.shipping.uploads import Urgency, failure


class SnapshotQueue:
    """Snapshots of one session on their way. `put` may be called from any thread."""

    def __init__(self, node: NodeState) -> None:
        self._jobs, self._ref = node.jobs, node.parts.ref
        self._metrics = node.parts.metrics
        self._waiting: dict[str, Snapshot] = {}
        self._lock = threading.Lock()

    def put(self, snapshot: Snapshot) -> None:
        """Queue an answer; one of the same endpoint that waits already is replaced."""
        with self._lock:
            waits = snapshot.name in self._waiting
            self._waiting[snapshot.name] = snapshot
        if not waits:
            self._submit(snapshot.name)

    def _submit(self, name: str) -> None:
        def work() -> Snapshot:
            with self._lock:
                snapshot = self._waiting[name]
            put_snapshot(self._jobs.backend, self._ref, snapshot)
            return snapshot

        self._jobs.submit("snapshot", work, partial(self._stored, name), urgency=Urgency.SMALL)

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
