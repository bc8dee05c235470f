"""The collector's registry, and the counters of intake, journal and lifecycle.

Each part gets the object passed in. Names follow `rayhistory_collector_<thing>_<unit>`;
every skip and drop carries a `reason` that is the value of an enumeration in the code.
docs/operations.md tells when to worry.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

PREFIX = "rayhistory_collector"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ACK_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 10.0)


class BackgroundTask(Enum):
    """Work that goes on after a failure, as `loop_errors_total` names it."""

    FOLLOW = "follow"
    """Looking for the session that runs."""
    LEFTOVERS = "leftovers"
    """Looking for sessions that are over and not finished."""
    FINISH = "finish"
    """Finishing a session."""
    SHIPPING = "shipping"
    """One step of shipping a session."""
    SNAPSHOTS = "snapshots"
    """One round of asking the dashboard."""
    LAST_POLL = "last_poll"
    """Asking the dashboard a last time, after SIGTERM."""
    LAST_LOOK = "last_look"
    """Looking for a session a last time, after SIGTERM."""


class JournalOperation(Enum):
    """What failed on the journal's disk."""

    APPEND = "append"
    """The events were not taken; Ray sends them again."""
    ROTATE = "rotate"
    SYNC = "sync"
    """What was taken since the last sync is in the page cache only."""
    SEAL = "seal"
    """A sealed segment was not synced; it is shipped all the same."""
    SAVE_IDS = "save_ids"
    """After a restart, events that Ray sends again may be stored twice."""


class UnkeptReason(Enum):
    """Why a bad event or body was counted and not kept in the quarantine."""

    FULL = "full"
    """The folder has its size."""
    NOT_WRITABLE = "not_writable"
    """The disk refused it."""
    TOO_MANY = "too_many"
    """Its body had very many."""


class LoopErrors:
    """Counts failures of background work that goes on."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._counter = Counter(
            f"{PREFIX}_loop_errors_total",
            "Failures of a background task that went on, by task.",
            ("task",),
            registry=self.registry,
        )
        show_all(self._counter, BackgroundTask)

    def count(self, task: BackgroundTask) -> None:
        """One more failure of this task."""
        self._counter.labels(task.value).inc()


def show_all(counter: Counter, values: Iterable[Enum]) -> None:
    """Show every value of the only label from the start, so that rates begin at 0."""
    for value in values:
        counter.labels(value.value)


class CollectorMetrics:
    """The counters that intake, journal and lifecycle use.

    Shipping and the dashboard's polling register their own on `registry`, see
    `collector.shipping.metrics` and `collector.dashboard.metrics`.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._define_intake()
        self._define_journal()
        self._define_session()

    def _define_intake(self) -> None:
        self.posts = self._counter("posts_total", "POSTs answered, by status.", "status")
        self.received = self._counter("events_received_total", "Events in the bodies that came.")
        self.duplicates = self._counter(
            "events_duplicate_total", "Events whose id was stored already; not stored again."
        )
        self.stored = self._counter("events_stored_total", "Events written to the journal.")
        self.received_bytes = self._counter("received_bytes_total", "Bytes of bodies received.")
        self.quarantined = self._counter(
            "events_quarantined_total", "Bad events and bodies, by reason.", "reason"
        )
        self.quarantine_unkept = self._counter(
            "quarantine_unkept_total",
            "Bad events and bodies counted but not kept, by reason.",
            "reason",
        )
        show_all(self.quarantine_unkept, UnkeptReason)
        self.refused = self._counter(
            "refused_total", "POSTs answered 503, by reason; Ray sends them again.", "reason"
        )
        self.ack_seconds = Histogram(
            f"{PREFIX}_ack_seconds",
            "From the first byte of a POST to its answer.",
            registry=self.registry,
            buckets=_ACK_BUCKETS_S,
        )

    def _define_journal(self) -> None:
        self.journal_bytes = self._gauge("journal_bytes", "Event segments on the local disk.")
        self.journal_segments = self._gauge("journal_segments", "Event segments, sealed or not.")
        self.journal_pressed = self._gauge(
            "journal_pressed", "1 while the journal is above its cap."
        )
        self.journal_errors = self._counter(
            "journal_errors_total", "Work on the journal that failed, by operation.", "operation"
        )
        show_all(self.journal_errors, JournalOperation)
        self.torn_bytes = self._counter(
            "journal_torn_bytes_total", "Bytes of torn last lines cut at start; never acknowledged."
        )
        self.syncs = self._counter("journal_syncs_total", "Segments synced to the device.")

    def _define_session(self) -> None:
        self.session_changes = self._counter("session_changes_total", "Sessions followed so far.")
        self.session_known = self._gauge("session_known", "1 when session and node id are known.")
        self.raylet_up = self._gauge("raylet_up", "1 while the raylet's socket accepts.")
        self.drain_seconds = self._gauge("drain_seconds", "How long the last drain took.")
        self.sessions_finished = self._counter(
            "sessions_finished_total", "Sessions finalised, by how they ended.", "reason"
        )
        self.loop_errors = LoopErrors(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, registry=self.registry)

    def render(self) -> bytes:
        """The text that `/metrics` answers."""
        return generate_latest(self.registry)
