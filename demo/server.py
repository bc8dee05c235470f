"""The history server, started as a user would start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.collector import REPOSITORY
from demo.progress import DemoError
from demo.session import tail

START_TIMEOUT_S = 30.0


def server_command(*, storage: Path, cache: Path, port: int) -> list[str]:
    """The command of a history server that only this machine can reach."""
    return [
        *(sys.executable, "-m", "historyserver"),
        *("--storage-backend=local", f"--storage-local-dir={storage}", "--storage-root-dir="),
        *("--listen-address=127.0.0.1", f"--port={port}", f"--cache-dir={cache}"),
    ]


@contextmanager
def history_server(*, storage: Path, cache: Path, port: int, log: Path) -> Iterator[str]:
    """Run the server on 127.0.0.1; yields its base URL, ends it at the end."""
    # However the demo ends, the kernel then ends the server, and the port is free again.
    end_with_us = ["setpriv", "--pdeathsig", "TERM", "--"]
    with log.open("ab") as output:
        server = subprocess.Popen(
            [*end_with_us, *server_command(storage=storage, cache=cache, port=port)],
            cwd=REPOSITORY,
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    base_url = f"http://127.0.0.1:{port}"
    try:
        _wait(server, base_url, log)
        yield base_url
    finally:
        _end(server)


def _wait(server: subprocess.Popen[bytes], base_url: str, log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise DemoError(f"the history server ended; the end of {log}:\n{tail(log)}")
        try:
            with opener.open(f"{base_url}/readyz", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise DemoError(f"the history server does not answer; the end of {log}:\n{tail(log)}")


def _end(server: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL to it and its workers (they share its process group)."""
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
