"""Clients that are slow, or speak no HTTP: they hold no thread for long."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ProcessLogs

REPOSITORY = Path(__file__).parents[3]
_PROGRAM = """
import struct, sys
from historyserver.web import connections
connections.HEAD_S = 1.0
connections._WATCH_S = 0.1
connections._STALL = struct.pack("ll", 1, 0)
from historyserver.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def port(tmp_path: Path, process_logs: ProcessLogs) -> Iterator[int]:
    """Of a server with two threads and little patience."""
    (tmp_path / "store").mkdir()
    log = process_logs.add(tmp_path / "server.log")
    command = [
        *(sys.executable, "-c", _PROGRAM, "serve", "--storage-backend=local", "--threads=2"),
        *(f"--storage-local-dir={tmp_path / 'store'}", f"--cache-dir={tmp_path / 'cache'}"),
        *("--port=0", "--stop-timeout=1s"),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield _port_of(process, log)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


def _port_of(process: subprocess.Popen[bytes], log: Path) -> int:
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s and process.poll() is None:
        for line in log.read_text().splitlines():
            if '"listening"' in line:
                return int(str(json.loads(line)["address"]).rpartition(":")[2])
        time.sleep(0.05)
    raise AssertionError(f"no server: {log.read_text()}")


def ask(port: int, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes, str]:
    """Status, body and content type."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read(), response.getheader("Content-Type", "")
    finally:
        connection.close()


def test_heads_that_never_end_do_not_stop_the_probes(port: int) -> None:
    """More of them than threads, and each sends a byte now and then."""
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
    for client in clients:
        client.sendall(b"GET /clusters HTTP/1.1\r\nHost: x\r\nX-Long: ")
    time.sleep(0.5)
    for client in clients:
        client.sendall(b"x")
    began_s = time.monotonic()
    assert ask(port, "/healthz")[0] == 200
    assert time.monotonic() - began_s < 10
    for client in clients:
        client.close()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/api/v0/tasks?x=" + "y" * 10_000, {}, 414),
        ("/api/v0/tasks", {"Cookie": "a=" + "b" * 40_000}, 431),
        ("/api/v0/tasks", {"Content-Length": "-1"}, 400),
    ],
)
def test_what_is_too_large_is_refused_in_our_shape(
    port: int, path: str, headers: dict[str, str], status: int
) -> None:
    """Though the app never sees it."""
    found, body, content_type = ask(port, path, headers)
    assert found == status
    assert content_type.startswith("application/json")
    assert json.loads(body)["data"]["error"]["code"] == "bad_request"


def test_the_cookies_of_a_sign_in_proxy_fit(port: int) -> None:
    """They are larger than gunicorn's 8 KiB."""
    assert ask(port, "/clusters", {"Cookie": "a=" + "b" * 20_000})[0] == 200
