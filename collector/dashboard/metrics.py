"""Counter of the dashboard's requests."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from collector.metrics import PREFIX


class DashboardMetrics:
    """What `collector.dashboard.polling` counts."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self.polls = Counter(
            f"{PREFIX}_polls_total",
            "Dashboard requests, by outcome.",
            ("outcome",),
            registry=self.registry,
        )
