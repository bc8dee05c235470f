"""The demo's history server lives as long as the demo, and Ctrl-C is its good end."""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import __main__ as command
from demo.collector import REPOSITORY
from tests.fidelity.pairs import free_port

SERVES = """
import sys, time
from pathlib import Path
from demo.server import history_server
folder, port = Path(sys.argv[1]), int(sys.argv[2])
with history_server(storage=folder, cache=folder, port=port, log=folder / "log"):
    print("up", flush=True)
    time.sleep(60)
"""


def listens(port: int) -> bool:
    """Whether something takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_server_ends_when_the_demo_is_killed(tmp_path: Path) -> None:
    """SIGKILL to the demo frees the port for the next one."""
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-c", SERVES, str(tmp_path), str(port)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout
        assert demo.stdout.readline() == "up\n"
        assert listens(port)
        demo.kill()
    deadline = time.monotonic() + 15
    while listens(port) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not listens(port)


@pytest.fixture
def ignored_ctrl_c() -> Iterator[None]:
    """SIGINT as a background command of a script has it; the test's own handlers come back."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_ctrl_c_while_serving_is_a_good_end(
    ignored_ctrl_c: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Status 0, the server is gone, and the last line is a command that serves the data again."""
    del ignored_ctrl_c
    port, data = free_port(), tmp_path / "a data folder"

    def interrupted() -> None:
        assert listens(port)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(command, "run_session", lambda *_: "session_2026-12-01_04-39-01_994591_13")
    monkeypatch.setattr(command, "run_checks", lambda _: [(True, "all of it")])
    monkeypatch.setattr(signal, "pause", interrupted)
    status = command.main(["--port", str(port), "--data-dir", str(data)])
    assert status == 0
    assert not listens(port)
    again = shlex.split(capfd.readouterr().out.splitlines()[-1])
    assert_serves([*again, f"--port={port}", f"--cache-dir={tmp_path}"], port)


def assert_serves(server_command: list[str], port: int) -> None:
    """A server started by this command answers that its storage is there."""
    with subprocess.Popen(server_command, stdout=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 30
            while not listens(port) and time.monotonic() < deadline:
                time.sleep(0.1)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
                assert answer.status == 200
        finally:
            server.terminate()
