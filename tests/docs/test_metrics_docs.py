"""docs/operations.md tells of every metric there is, and of none that there is not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from collector.lifecycle.assembly import assemble
from collector.metrics import PREFIX as COLLECTOR
from collector.settings import read_settings
from historyserver.metrics import PREFIX as SERVER
from historyserver.metrics import ServerMetrics
from storage.local import LocalBackend

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"

_NAME = re.compile(r"`([a-z_]+)(?:\{[a-z_,]+\})?`")


def told(heading: str) -> set[str]:
    """The metrics in the first column of the table under this heading."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")
    section = rest.partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in _NAME.findall(row)}


def names(registry: CollectorRegistry, *, prefix: str) -> set[str]:
    """The names as a query needs them, without the prefix."""
    return {
        family.name.removeprefix(prefix) + ("_total" if family.type == "counter" else "")
        for family in registry.collect()
    }


@pytest.fixture
def collector_registry(tmp_path: Path) -> Iterator[CollectorRegistry]:
    """The registry of a collector that is put together as the program does it."""
    flags = ["--ray-cluster-name=c", f"--ray-tmp-dir={tmp_path}", "--storage-backend=local"]
    settings = read_settings([*flags, f"--storage-local-dir={tmp_path}"], {})
    (tmp_path / "store").mkdir()
    parts = assemble(settings, LocalBackend(tmp_path / "store"), version="1", env={})
    yield parts.metrics.registry
    parts.follow.shipper.close()
    os.close(parts.lock)


def test_the_page_tells_of_all_metrics_of_the_collector(
    collector_registry: CollectorRegistry,
) -> None:
    """And of no other."""
    assert told("The collector's metrics") == names(collector_registry, prefix=f"{COLLECTOR}_")


def test_the_page_tells_of_all_metrics_of_the_server() -> None:
    """Those of sizes and keys are added by the parts that they watch."""
    watched = {
        "answer_cache_bytes",
        "catalogue_age_seconds",
        "catalogue_skipped_keys",
        "compiled_cache_bytes",
    }
    registry = ServerMetrics().registry
    assert told("The history server's metrics") == names(registry, prefix=SERVER) | watched
