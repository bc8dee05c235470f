"""Reads the server's metrics as Prometheus does."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from historyserver.metrics import ServerMetrics


def values(metrics: ServerMetrics, name: str) -> dict[str, float]:
    """A metric's values by their one label; without those that are 0."""
    families = text_string_to_metric_families(metrics.page()[0].decode())
    samples = [s for family in families for s in family.samples]
    found = {"".join(s.labels.values()): s.value for s in samples if s.name.endswith(name)}
    assert found, f"no metric {name}"
    return {label: value for label, value in found.items() if value}
