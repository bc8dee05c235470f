"""Fixtures of the tests that run real collector processes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.collector.collector_process import CollectorProcess, RayDouble, Stored
from tests.conftest import ProcessLogs

StartCollector = Callable[..., CollectorProcess]


@pytest.fixture
def ray() -> Iterator[RayDouble]:
    """A Ray directory; with a short path, as sockets need it."""
    root = Path(tempfile.mkdtemp(prefix="ray-"))
    double = RayDouble(root / "ray")
    yield double
    double.close()
    shutil.rmtree(root)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """The bucket of the collectors that `start_collector` starts."""
    return Stored(tmp_path / "store")


@pytest.fixture
def start_collector(
    ray: RayDouble, stored: Stored, tmp_path: Path, process_logs: ProcessLogs
) -> Iterator[StartCollector]:
    """Starts collectors of a head, with more options; kills what is left of them."""
    running: list[CollectorProcess] = []
    output = process_logs.add(tmp_path / "collector.log")

    def start(*options: str) -> CollectorProcess:
        role = () if any(option.startswith("--role") for option in options) else ("--role=Head",)
        process = CollectorProcess(ray, stored.root, output, *role, *options)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
