"""Counters of the shipping side: uploads, live segments, logs and snapshots."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from collector.metrics import PREFIX, show_all
from collector.tails import LogEndReason, LogTails, SkipReason

_UPLOAD_BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True, slots=True)
class _LogFigures:
    """What one session's logs come to."""

    followed: int
    unread_bytes: int
    gap_bytes: int
    skipped: dict[SkipReason, int]


class ShippingMetrics:
    """What the upload queue and the shipping of sessions count."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._lock = threading.Lock()
        self._figures: dict[tuple[str, str], _LogFigures] = {}
        self._define_uploads()
        self._define_logs()

    def _define_uploads(self) -> None:
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
        self.live_segments = self._counter("live_segments_total", "Live segments stored.")
        self.live_segment_bytes = self._counter(
            "live_segment_bytes_total", "Bytes of live segments stored."
        )
        self.snapshots_stored = self._counter("snapshots_stored_total", "Snapshots shipped.")

    def _define_logs(self) -> None:
        self.unread_log_bytes = self._gauge(
            "unread_log_bytes", "Log bytes on this disk that storage does not have."
        )
        self.logs_followed = self._gauge(
            "logs_followed", "Log files of sessions that ship, with those that ended."
        )
        self.logs_skipped = Gauge(
            f"{PREFIX}_logs_skipped",
            "Entries of the logs folder not followed, by reason, at the last look.",
            ("reason",),
            registry=self.registry,
        )
        self.logs_ended = self._counter(
            "logs_ended_total", "Log files that ended while their session ran, by reason.", "reason"
        )
        show_all(self.logs_ended, LogEndReason)
        self.logs_dropped = self._counter(
            "logs_dropped_total", "Logs that get no object of their own, by reason.", "reason"
        )
        self.log_gap_bytes = self._gauge(
            "log_gap_bytes", "Log bytes that vanished before they were read."
        )

    def tell_logs(self, pair: tuple[str, str], tails: LogTails, *, over: bool = False) -> None:
        """Take over what the last look at a session's logs found. The gauges are sums over all
        sessions, as an old one is finished beside the one that runs; any thread.

        Args:
            pair: the session and node.
            tails: its logs.
            over: it ships no more. What it left unread, and its gaps, still count.

        """
        logs = tails.logs()
        figures = _LogFigures(
            followed=0 if over else len(logs),
            unread_bytes=tails.unread_bytes(),
            gap_bytes=sum(log.gap[1] - log.gap[0] for log in logs if log.gap),
            skipped={} if over else dict(tails.skipped),
        )
        for end_reason, number in tails.take_ended().items():
            self.logs_ended.labels(end_reason.value).inc(number)
        with self._lock:
            self._figures[pair] = figures
            self._set_log_gauges()

    def _set_log_gauges(self) -> None:
        told = self._figures.values()
        self.unread_log_bytes.set(sum(figures.unread_bytes for figures in told))
        self.logs_followed.set(sum(figures.followed for figures in told))
        self.log_gap_bytes.set(sum(figures.gap_bytes for figures in told))
        for reason in SkipReason:
            skipped = sum(figures.skipped.get(reason, 0) for figures in told)
            self.logs_skipped.labels(reason.value).set(skipped)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, registry=self.registry)
