"""build/bench.json and docs/performance.md."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.bench.figures import BUILD, ROOT, Benchmark, Figure

RESULTS = BUILD / "bench.json"
DOCS = ROOT / "docs" / "performance.md"
PACKAGES = ("msgspec", "zstandard", "flask", "gunicorn", "aiohttp", "ray")


def write(results: dict[Benchmark, list[Figure]], path: Path = RESULTS) -> None:
    """Write the figures of a run; those of other benchmarks stay from earlier runs."""
    document = read(path)
    document["machine"], document["versions"] = machine(), versions()
    date = document["date"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for benchmark, figures in results.items():
        document["benchmarks"][benchmark.name] = {
            "what": benchmark.what,
            "date": date,
            "figures": [
                {
                    "name": figure.name,
                    "value": figure.value,
                    "unit": figure.unit,
                    "target": figure.target,
                    "met": figure.is_met,
                }
                for figure in figures
            ],
        }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def read(path: Path = RESULTS) -> dict[str, Any]:
    """Read the figures of earlier runs; none when there are none."""
    empty: dict[str, Any] = {"benchmarks": {}}
    return json.loads(path.read_text()) if path.exists() else empty


def machine() -> dict[str, Any]:
    """What the figures depend on: never a host name."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_bytes / 2**30, 1),
        "load_before": round(os.getloadavg()[0], 1),
    }


def versions() -> dict[str, str]:
    """Of what does the work."""
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def render(document: dict[str, Any]) -> str:
    """Make the page from the figures."""
    about, used = document["machine"], document["versions"]
    lines = [
        "# Performance",
        "",
        "Made by `python -m tests.bench --write-docs` from `build/bench.json`; do not edit.",
        "",
        f"Measured {document['date'][:10]} on {about['cores']} cores ({about['processor']}), "
        f"{about['memory_gib']:g} GiB, {about['system']} {about['architecture']}; "
        + ", ".join(f"{name} {number}" for name, number in sorted(used.items()))
        + ".",
        "",
        "For comparison, KubeRay's server (v1.7.0) on the same kind of machine: 24.8 s to open",
        "100,000 tasks, then 3.4 to 4.1 s for every request, 2.8 GB; at 300,000 tasks the open",
        "fails after 134 s with 5.5 GB.",
        "",
    ]
    for name, found in sorted(document["benchmarks"].items()):
        lines += [f"## {name}", "", found["what"], "", "| figure | value | unit | target | |"]
        lines.append("|---|---|---|---|---|")
        lines += [
            f"| {figure['name']} | {figure['value']:.4g} | {figure['unit']} | {figure['target']} "
            f"| {'ok' if figure['met'] else 'short'} |"
            for figure in found["figures"]
        ]
        lines.append("")
    return "\n".join(lines)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or sys.platform
