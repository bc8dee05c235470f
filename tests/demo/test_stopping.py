"""However the demo ends, nothing that it started stays."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from demo.collector import REPOSITORY
from demo.namespace import descendants
from tests.fidelity.pairs import free_port

pytestmark = [pytest.mark.ray]


class Logs(Protocol):
    """The fixture `process_logs`."""

    def add(self, path: Path) -> Path:
        """Remember a file."""
        ...


def until(holds: Callable[[], bool], *, within_s: float) -> bool:
    """Wait for a condition."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.1)
    return False


def is_ray(pid: int) -> bool:
    """Whether a process is one of Ray's servers."""
    try:
        return b"gcs_server" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_every_process(
    number: signal.Signals, tmp_path: Path, namespaces: None, process_logs: Logs
) -> None:
    """Ctrl-C and SIGTERM while Ray starts: status 130, and all processes are gone."""
    del namespaces
    log = process_logs.add(tmp_path / "demo.log")
    command = [sys.executable, "-m", "demo", "--port", str(free_port())]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "--data-dir", str(tmp_path / "data")],
            cwd=REPOSITORY,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as demo,
    ):
        try:
            assert until(lambda: any(is_ray(pid) for pid in descendants(demo.pid)), within_s=60)
            started = descendants(demo.pid)
            demo.send_signal(number)
            assert demo.wait(timeout=30) == 130
        finally:
            demo.kill()  # a demo that goes on would keep this test waiting
    assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), within_s=10)
    assert "stopped; everything that it started has ended" in log.read_text()
