"""Rules for all tests: nothing is skipped in CI, and a failure shows its processes' logs."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

# `demo` and `tests` are not installed: the tests find them beside this folder, however they start.
sys.path.insert(0, str(Path(__file__).parents[1]))

pytest_plugins = ("tests.harness.fixtures", "tests.cluster.apiserver")

LOG_TAIL_BYTES = 8_000


class ProcessLogs:
    """Output files of the processes that a test started; shown when it fails."""

    def __init__(self) -> None:
        self._paths: list[Path] = []

    def add(self, path: Path) -> Path:
        """Remember a file (it may not exist yet)."""
        self._paths.append(path)
        return path

    def process_logs(self) -> list[Path]:
        """All files."""
        return self._paths


@pytest.fixture
def process_logs() -> ProcessLogs:
    """Give it the output files of processes that the test starts."""
    return ProcessLogs()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip is a failure in CI; a failure shows the logs of every fixture that has some."""
    report = yield
    if report.skipped and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            logs = getattr(value, "process_logs", None)
            if callable(logs):
                report.sections.extend(_tail(path) for path in logs())
    return report


def _tail(path: Path) -> tuple[str, str]:
    """A report section with the end of a log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        text = f"cannot be read: {error}"
    return f"log {path}", text
