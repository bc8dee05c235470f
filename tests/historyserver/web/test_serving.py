"""The server as a process: start, memory, many readers, a graceful stop."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ProcessLogs
from tests.harness.compiled_samples import SESSIONS, kuberay_samples
from tests.historyserver.web.server_process import Server, start_server

IDLE_BYTES = 90 * 1024 * 1024
PREFIX = f"/s/ml/raycluster/v170/{SESSIONS['v170']}"

LEFT = "..0a-3-f1.77.unfinished.x7"
"""A folder that a compile of a killed server left."""


@pytest.fixture
def server(tmp_path: Path, process_logs: ProcessLogs) -> Iterator[Server]:
    """A server over the two KubeRay sample sessions."""
    shutil.copytree(kuberay_samples() / "tree", tmp_path / "tree")
    (tmp_path / "cache" / LEFT).mkdir(parents=True)
    log = process_logs.add(tmp_path / "server.log")
    server = start_server(tmp_path / "tree", tmp_path / "cache", log)
    yield server
    server.stop()


def test_a_session_is_compiled_served_and_stored_back(server: Server, tmp_path: Path) -> None:
    """From KubeRay's files to the UI's answers, by the program as it is installed."""
    status, body = server.get(f"{PREFIX}/api/v0/tasks?detail=1&limit=10000")
    assert status == 200, body
    assert json.loads(body)["data"]["result"]["total"] == 13
    deadline_s = time.monotonic() + 20
    while not list((tmp_path / "tree" / "history").rglob("*.sqlite.zst")):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    metrics = server.get("/metrics")[1].decode()
    assert 'rayhistory_server_sessions_opened_total{outcome="opened"} 1.0' in metrics
    (size,) = re.findall(r"^rayhistory_server_compiled_cache_bytes (\S+)", metrics, re.MULTILINE)
    assert float(size) > 10_000
    status, page = server.get(PREFIX + "/")
    assert status == 200
    assert b"<title>Ray Dashboard</title>" in page


def test_what_a_killed_server_left_is_removed_at_the_next_start(
    server: Server, tmp_path: Path
) -> None:
    """Before anybody asks for a session: it may fill the disk."""
    assert server.get("/healthz")[0] == 200
    assert not (tmp_path / "cache" / LEFT).exists()


def test_memory_at_rest_is_small(server: Server) -> None:
    """Master and worker together, with a session open."""
    assert server.get(f"{PREFIX}/timezone")[0] == 200
    assert server.resident_bytes() < IDLE_BYTES


def test_many_readers_at_once_get_their_own_session(server: Server) -> None:
    """Tabs on different sessions do not mix, also while both are being opened."""
    wrong: list[object] = []

    def read(version: str) -> None:
        path = f"/s/ml/raycluster/{version}/{SESSIONS[version]}/api/version"
        for _ in range(10):
            status, body = server.get(path)
            if status != 200 or json.loads(body)["session_name"] != SESSIONS[version]:
                wrong.append((status, body))

    readers = [threading.Thread(target=read, args=(v,)) for v in ("v162", "v170") * 8]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert wrong == []


def test_the_log_has_one_line_per_request_and_no_secrets(server: Server) -> None:
    """Query values, cookies and headers stay out."""
    server.get(
        f"{PREFIX}/api/v0/logs/file?filename=hush-query",
        {"Cookie": "token=hush-cookie", "Authorization": "Bearer hush-header"},
    )
    server.process.terminate()
    assert server.process.wait(20) == 0
    requests = [line for line in server.lines() if line["message"] == "request"]
    (line,) = requests
    assert line["route"] == "/api/v0/logs/file"
    assert line["status"] == 400
    assert line["chosen_by"] == "path"
    assert "hush" not in server.log.read_text()


def test_sigterm_ends_it_in_order(server: Server, tmp_path: Path) -> None:
    """A running request is answered; all processes are gone; the status is 0."""
    assert server.get("/healthz")[0] == 200
    answers: list[int] = []
    reader = threading.Thread(target=lambda: answers.append(server.get(f"{PREFIX}/api/jobs/")[0]))
    reader.start()
    deadline_s = time.monotonic() + 20
    locks = tmp_path / "cache" / "locks"
    while not list(locks.glob("slot-*")):  # the session is being compiled; `LEFT` has a lock too
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
    os.kill(server.process.pid, signal.SIGTERM)
    assert server.process.wait(20) == 0
    reader.join(20)
    assert answers == [200]
