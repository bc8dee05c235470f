"""All counters of the collector, on one registry of its own.

Each part gets the object passed in. Names follow `rayhistory_collector_<thing>_<unit>`;
every skip and drop carries a `reason` that is the value of an enumeration in the code.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

PREFIX = "rayhistory_collector"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ACK_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 10.0)


class CollectorMetrics:
    """The counters that intake, journal, discovery and lifecycle use.

    Parts with counters of their own (tails, shipper, snapshots) register them on
    `registry` themselves.
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
        self.quarantine_full = self._counter(
            "quarantine_full_total", "Bad events counted but not kept: the folder is full."
        )
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
        self.journal_errors = self._counter("journal_errors_total", "Journal writes that failed.")
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
        self.loop_errors = self._counter(
            "loop_errors_total", "Failures of a background task that went on, by task.", "task"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, registry=self.registry)

    def render(self) -> bytes:
        """The text that `/metrics` answers."""
        return generate_latest(self.registry)
