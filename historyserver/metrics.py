"""The server's metrics, in a registry of its own: `rayhistory_server_...`."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class ServerMetrics:
    """Counts requests by route class and status, openings by outcome, and cache bytes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "rayhistory_server_requests",
            "Requests answered.",
            ("route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "rayhistory_server_request_seconds",
            "Time until the response was made (streamed bodies: until it began).",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._answers = Counter(
            "rayhistory_server_answers",
            "Session answers by how they came: not_modified, remembered or made.",
            ("outcome",),
            registry=self.registry,
        )
        self._opened = Counter(
            "rayhistory_server_sessions_opened",
            "Openings of a session that was not open: by outcome.",
            ("outcome",),
            registry=self.registry,
        )
        self._opening_seconds = Histogram(
            "rayhistory_server_session_opening_seconds",
            "Time to open a session that was not open.",
            buckets=(0.01, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
            registry=self.registry,
        )

    def request(self, *, route: str, status: int, seconds: float, outcome: str) -> None:
        """Count one request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if outcome:
            self._answers.labels(outcome).inc()

    def opened(self, outcome: str, seconds: float) -> None:
        """Count one opening."""
        self._opened.labels(outcome).inc()
        self._opening_seconds.observe(seconds)

    def watch_bytes(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Show a size that is read when the page is asked for."""
        gauge = Gauge(f"rayhistory_server_{name}_bytes", help_text, registry=self.registry)
        gauge.set_function(read)

    def page(self) -> tuple[bytes, str]:
        """The page and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
