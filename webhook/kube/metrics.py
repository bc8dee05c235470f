"""What the webhook's talk with the API server counts: `rayhistory_webhook_...`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

PREFIX = "rayhistory_webhook"
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)


class Source(StrEnum):
    """Where the answer of a look-up came from."""

    WATCH = "watch"
    RECENT = "recent"
    """A live answer of the last seconds: the watch is about to have it."""
    LIVE = "live"
    FAILED = "failed"


class WatchEnd(StrEnum):
    """Why a watch had to be begun anew."""

    ENDED = "ended"
    """The server's time for it was over."""
    BROKEN = "broken"
    EXPIRED = "expired"
    """Its place in the history is gone: listed again."""
    NOT_INSTALLED = "not_installed"
    REFUSED = "refused"


class AccountOutcome(StrEnum):
    """What became of an account that a pod needs."""

    KNOWN = "known"
    FOUND = "found"
    MADE = "made"
    FAILED = "failed"


class EventOutcome(StrEnum):
    """What became of an Event, or why it was dropped."""

    RECORDED = "recorded"
    REPEATED = "repeated"
    """Added to the count of one that is there."""
    DROPPED_FULL = "dropped_full"
    DROPPED_REFUSED = "dropped_refused"
    DROPPED_UNREACHABLE = "dropped_unreachable"
    DROPPED_STOPPED = "dropped_stopped"


class KubeMetrics:
    """Counters and gauges on the webhook's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._shown: frozenset[tuple[str, str]] = frozenset()
        self._lookups = self._counter(
            "lookups",
            "Look-ups of what a review needs to know, by where the answer came from.",
            "resource",
            "source",
        )
        self._live_seconds = Histogram(
            f"{PREFIX}_live_lookup_seconds",
            "Time of the look-ups that asked the API server within a review.",
            ("resource",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._accounts = self._counter(
            "accounts",
            "ServiceAccounts that injected pods needed, by what became of them.",
            "outcome",
        )
        self._events = self._counter(
            "events", "Kubernetes Events on RayClusters, by what became of them.", "outcome"
        )
        self._watch_metrics()
        self._report_metrics()
        for outcome in EventOutcome:
            self._events.labels(outcome.value)
        for ending in AccountOutcome:
            self._accounts.labels(ending.value)

    def _watch_metrics(self) -> None:
        self._watch_ends = self._counter(
            "watch_ends", "Watches that were begun anew, by cause.", "resource", "cause"
        )
        self._watched = self._gauge("watched_objects", "Objects that a watch holds.", "resource")
        self._silence = self._gauge(
            "watch_silence_seconds",
            "Time since a watch heard of the API server; it hears every minute or so.",
            "resource",
        )

    def _report_metrics(self) -> None:
        self._missing = self._gauge(
            "pods_without_collector",
            "Running Ray pods that should have a collector and have none, by why they should.",
            "namespace",
            "reason",
        )
        self._reports = self._counter(
            "reports", "Rounds that looked for Ray pods without a collector.", "outcome"
        )
        for word in ("complete", "failed"):
            self._reports.labels(word)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", meaning, labels, registry=self._registry)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", meaning, labels, registry=self._registry)

    def looked_up(self, resource: str, source: Source) -> None:
        """Count a look-up."""
        self._lookups.labels(resource, source.value).inc()

    def asked_live(self, resource: str, seconds: float) -> None:
        """Time a look-up that asked the API server."""
        self._live_seconds.labels(resource).observe(seconds)

    def watch_ended(self, resource: str, cause: WatchEnd) -> None:
        """Count the end of a watch."""
        self._watch_ends.labels(resource, cause.value).inc()

    def account(self, outcome: AccountOutcome) -> None:
        """Count an account that was asked for."""
        self._accounts.labels(outcome.value).inc()

    def event(self, outcome: EventOutcome, count: int = 1) -> None:
        """Count Events."""
        self._events.labels(outcome.value).inc(count)

    def reported(self, missing: Mapping[tuple[str, str], int] | None) -> None:
        """Show pods without a collector by namespace and reason; None: the round failed."""
        self._reports.labels("failed" if missing is None else "complete").inc()
        if missing is None:
            return
        for (namespace, reason), count in missing.items():
            self._missing.labels(namespace, reason).set(count)
        for namespace, reason in self._shown - missing.keys():
            self._missing.remove(namespace, reason)
        self._shown = frozenset(missing)

    def watch_state(
        self, resource: str, *, objects: Callable[[], int], silence_s: Callable[[], float]
    ) -> None:
        """Show how many objects a watch holds and when it heard last."""
        self._watched.labels(resource).set_function(objects)
        self._silence.labels(resource).set_function(silence_s)

    def sidecar_support(self, is_native: Callable[[], bool]) -> None:
        """Show whether the cluster runs native sidecars."""
        gauge = self._gauge(
            "native_sidecars", "1 where server and all schedulable nodes run native sidecars."
        )
        gauge.set_function(lambda: float(is_native()))
