"""The server's metrics, in a registry of its own: `rayhistory_server_...`.

Every outcome and every reason why something was left out is an enumeration, so the values of
labels are bounded and all there from the start. docs/operations.md tells when to worry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from historyserver.catalogue.discovery import SkipReason as CatalogueSkip
from historyserver.catalogue.watching import RenewalOutcome
from historyserver.compiled.meta import Meta
from historyserver.compiling.cluster_events import LineSkip
from historyserver.folding.skips import SkipReason
from historyserver.http.answer_cache import AnswerOutcome
from historyserver.reading.damage import DamageReason
from historyserver.sessions.errors import BrokenReason
from historyserver.sessions.watching import (
    CompileOutcome,
    FetchOutcome,
    OpeningOutcome,
    StoreOutcome,
)

PREFIX = "rayhistory_server_"
REQUEST_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
OPENING_S = (0.01, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
COMPILE_S = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


class ServerMetrics:
    """All that the server counts. It is a `SessionWatch` and a `CatalogueWatch`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            f"{PREFIX}requests", "Requests answered.", ("route", "status"), registry=self.registry
        )
        self._request_seconds = self._seconds(
            "request", "Time until the response was made, or began.", REQUEST_S, ("route",)
        )
        self._opening_seconds = self._seconds(
            "session_opening", "Time to open a session that was not open.", OPENING_S
        )
        self._compile_seconds = self._seconds(
            "compile", "Time of compiling a session, without waiting for a turn.", COMPILE_S
        )
        self._answers = self._counter(
            "answers", "Session answers by how they came.", "outcome", AnswerOutcome
        )
        self._opened = self._counter(
            "sessions_opened", "Openings of a session that was not open.", "outcome", OpeningOutcome
        )
        self._broken = self._counter(
            "sessions_broken", "Openings that found a broken session.", "reason", BrokenReason
        )
        self._fetched = self._counter(
            "compiled_fetched", "Looks for a compiled file in storage.", "outcome", FetchOutcome
        )
        self._stored = self._counter(
            "compiled_stored", "Compiled files to be stored back.", "outcome", StoreOutcome
        )
        self._renewals = self._counter(
            "catalogue_renewals", "Renewals of the list of sessions.", "outcome", RenewalOutcome
        )
        self._compiles = self._counter("compiles", "Compiles.", "outcome", CompileOutcome)
        self._skipped = self._counter(
            "compiled_skipped", "Events and log lines left out.", "reason", (*SkipReason, *LineSkip)
        )
        self._damaged = self._counter(
            "compiled_damaged", "Places that could not be read.", "reason", DamageReason
        )

    def request(
        self, *, route: str, status: int, seconds: float, outcome: AnswerOutcome | None
    ) -> None:
        """Count one request."""
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)
        if outcome is not None:
            self._answers.labels(outcome).inc()

    def opened(self, outcome: OpeningOutcome, seconds: float) -> None:
        """See `SessionWatch`."""
        self._opened.labels(outcome).inc()
        self._opening_seconds.observe(seconds)

    def broken(self, reason: BrokenReason) -> None:
        """See `SessionWatch`."""
        self._broken.labels(reason).inc()

    def compiled(self, outcome: CompileOutcome, seconds: float, meta: Meta | None) -> None:
        """See `SessionWatch`."""
        self._compiles.labels(outcome).inc()
        self._compile_seconds.observe(seconds)
        if meta is not None:
            _add(self._skipped, meta.skipped, (*SkipReason, *LineSkip))
            _add(self._damaged, meta.damage, DamageReason)

    def fetched(self, outcome: FetchOutcome) -> None:
        """See `SessionWatch`."""
        self._fetched.labels(outcome).inc()

    def stored(self, outcome: StoreOutcome) -> None:
        """See `SessionWatch`."""
        self._stored.labels(outcome).inc()

    def renewed(self, outcome: RenewalOutcome) -> None:
        """See `catalogue.watching.CatalogueWatch`."""
        self._renewals.labels(outcome).inc()

    def watch_list_age(self, read: Callable[[], float]) -> None:
        """Show how old the list of sessions is, read when the page is asked for."""
        gauge = Gauge(
            f"{PREFIX}catalogue_age_seconds",
            "Age of the list of sessions; +Inf before the first.",
            registry=self.registry,
        )
        gauge.set_function(read)

    def watch_bytes(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Show a size that is read when the page is asked for."""
        gauge = Gauge(f"{PREFIX}{name}_bytes", help_text, registry=self.registry)
        gauge.set_function(read)

    def watch_skipped_keys(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Show how many keys the list of sessions passes over, counted when the page is asked."""
        gauge = Gauge(
            f"{PREFIX}catalogue_skipped_keys",
            "Keys of the storage that the list of sessions passes over.",
            ("reason",),
            registry=self.registry,
        )
        for reason in CatalogueSkip:
            gauge.labels(reason).set_function(partial(_count, counts, reason))

    def page(self) -> tuple[bytes, str]:
        """The page and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _counter(self, name: str, help_text: str, label: str, values: Iterable[StrEnum]) -> Counter:
        """A counter whose every label value is there from the start, so that rates begin at 0."""
        counter = Counter(f"{PREFIX}{name}", help_text, (label,), registry=self.registry)
        for value in values:
            counter.labels(value)
        return counter

    def _seconds(
        self, name: str, help_text: str, buckets: Sequence[float], labels: Sequence[str] = ()
    ) -> Histogram:
        return Histogram(
            f"{PREFIX}{name}_seconds", help_text, labels, buckets=buckets, registry=self.registry
        )


def _count(counts: Callable[[], Mapping[str, int]], reason: str) -> float:
    return counts().get(reason, 0)


def _add(counter: Counter, counts: Mapping[str, int], known: Iterable[StrEnum]) -> None:
    """Add the counts of enumerated reasons; what is counted by name beside them is no label."""
    for reason in known:
        if number := counts.get(reason, 0):
            counter.labels(reason).inc(number)
