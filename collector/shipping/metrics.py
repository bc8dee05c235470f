"""Counters of the shipping side: uploads, live segments, logs and snapshots."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from collector.metrics import PREFIX
from collector.tails import LogTails, SkipReason

_UPLOAD_BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class ShippingMetrics:
    """What the upload queue and the shipping of sessions count."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self.uploads = self._counter("uploads_total", "Uploads that succeeded.", "kind")
        self.upload_retries = self._counter(
            "upload_retries_total", "Uploads that failed and are tried again.", "kind"
        )
        self.upload_failures = self._counter(
            "upload_failures_total", "Uploads given up, by kind and reason.", "kind", "reason"
        )
        self.queued = self._gauge("upload_queue_uploads", "Uploads waiting or running.")
        self.upload_seconds = Histogram(
            f"{PREFIX}_upload_seconds",
            "One try of one upload.",
            ("kind",),
            registry=self.registry,
            buckets=_UPLOAD_BUCKETS_S,
        )
        self.hot_segments = self._counter("hot_segments_total", "Live segments stored.")
        self.hot_bytes = self._counter("hot_bytes_total", "Bytes of live segments stored.")
        self.unread_log_bytes = self._gauge(
            "unread_log_bytes", "Log bytes on this disk that storage does not have."
        )
        self.logs_followed = self._gauge("logs_followed", "Log files, with those that ended.")
        self.logs_skipped = Gauge(
            f"{PREFIX}_logs_skipped",
            "Entries of the logs folder not followed, by reason, at the last look.",
            ("reason",),
            registry=self.registry,
        )
        self.logs_dropped = self._counter(
            "logs_dropped_total", "Logs that get no object of their own, by reason.", "reason"
        )
        self.log_gap_bytes = self._gauge(
            "log_gap_bytes", "Log bytes that vanished before they were read."
        )
        self.snapshots_stored = self._counter("snapshots_stored_total", "Snapshots shipped.")

    def tell_logs(self, tails: LogTails) -> None:
        """Take over what the last look at the logs of the session that ships found."""
        logs = tails.logs()
        self.unread_log_bytes.set(tails.unread_bytes())
        self.logs_followed.set(len(logs))
        self.log_gap_bytes.set(sum(log.gap[1] - log.gap[0] for log in logs if log.gap))
        for reason in SkipReason:
            self.logs_skipped.labels(reason.value).set(tails.skipped[reason])

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, registry=self.registry)
