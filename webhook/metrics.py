"""The webhook's metrics, in a registry of its own: `rayhistory_webhook_...`.

Other parts (look-ups, reconcile) register theirs on `registry`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

PREFIX = "rayhistory_webhook"
SECONDS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
"""Up to the time that one review may take."""


class Verdict(StrEnum):
    """What became of a pod."""

    INJECTED = "injected"
    UNTOUCHED = "untouched"
    REFUSED = "refused"


class BadRequest(StrEnum):
    """Why a request got an HTTP error instead of a review's answer."""

    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    CONTENT_TYPE = "content_type"


class Reload(StrEnum):
    """How a look at the certificate's files ended."""

    LOADED = "loaded"
    FAILED = "failed"


class WebhookMetrics:
    """Counts admissions by what became of them and why, and shows the certificate's end."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._admissions = Counter(
            f"{PREFIX}_admissions",
            "Pods reviewed, by what became of them, why, and the form of the sidecar.",
            ("decision", "reason", "mode"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            f"{PREFIX}_admission_seconds",
            "From a review's arrival to its answer.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            f"{PREFIX}_admissions_in_flight", "Reviews being answered.", registry=self.registry
        )
        self._bad_requests = Counter(
            f"{PREFIX}_bad_requests",
            "Requests answered with an HTTP error: no review that can be answered.",
            ("reason",),
            registry=self.registry,
        )
        self._reloads = Counter(
            f"{PREFIX}_certificate_reloads",
            "Changes of the certificate's files, by outcome.",
            ("outcome",),
            registry=self.registry,
        )
        for verdict in BadRequest:
            self._bad_requests.labels(verdict.value)
        for outcome in Reload:
            self._reloads.labels(outcome.value)

    def admission(self, *, verdict: Verdict, reason: str, mode: str, seconds: float) -> None:
        """Count one review."""
        self._admissions.labels(verdict.value, reason, mode).inc()
        self._seconds.observe(seconds)

    def bad_request(self, reason: BadRequest) -> None:
        """Count a request that was no review."""
        self._bad_requests.labels(reason.value).inc()

    def reload(self, outcome: Reload) -> None:
        """Count a reload of the certificate."""
        self._reloads.labels(outcome.value).inc()

    def watch_certificate(self, not_after: Callable[[], float]) -> None:
        """Show when the serving certificate ends; 0 while there is none."""
        gauge = Gauge(
            f"{PREFIX}_certificate_not_after_timestamp_seconds",
            "When the serving certificate ends, as Unix time; 0 while there is none.",
            registry=self.registry,
        )
        gauge.set_function(not_after)

    def watch_ready(self, is_ready: Callable[[], bool]) -> None:
        """Show what /readyz says."""
        gauge = Gauge(f"{PREFIX}_ready", "1 while /readyz says yes.", registry=self.registry)
        gauge.set_function(lambda: float(is_ready()))

    def page(self) -> tuple[bytes, str]:
        """The page and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
