"""Through the dashboard of a real Ray with --proxy-server-url: choose a session, read it there."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.namespace import Namespace
from demo.ray_head import DASHBOARD_PORT, DASHBOARD_URL, RAY_TEMP_DIR, environment, ray_command
from demo.session import wait_for
from tests.conftest import ProcessLogs
from tests.harness.compiled_samples import SESSIONS, kuberay_samples

REPOSITORY = Path(__file__).parents[3]
SERVER_PORT = 8080
PATIENT = {
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "120",
}
"""Ray gives up after 30 s by default, which a busy machine needs."""
SESSION = SESSIONS["v170"]
ASK = """
import http.client, json, sys
cookies, answers = {}, []
for method, path, headers in json.loads(sys.argv[1]):
    c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=40)
    c.request(method, path, headers=headers | {"Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())})
    r = c.getresponse()
    for line in r.msg.get_all("Set-Cookie") or []:
        name, _, value = line.partition(";")[0].partition("=")
        cookies[name] = value
        if not value: del cookies[name]
    answers.append([r.status, r.msg.get_content_type(), r.read().decode("utf-8", "replace")])
print(json.dumps(answers))
"""

Answer = tuple[int, str, str]


class Ray:
    """A head whose dashboard passes requests on to a history server beside it."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def ask(self, *requests: tuple[str, str] | tuple[str, str, dict[str, str]]) -> list[Answer]:
        """Ask the dashboard, keeping cookies between the requests."""
        plan = [[*one, {}] if len(one) == 2 else list(one) for one in requests]
        done = self._namespace.run(
            [sys.executable, "-I", "-c", ASK, json.dumps(plan), str(DASHBOARD_PORT)], timeout_s=90
        )
        assert done.returncode == 0, done.stderr
        return [(status, kind, body) for status, kind, body in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def namespace(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """A private network and process namespace; Ray's files stay in the test's folder."""
    del namespaces
    started = Namespace.start(binds=[(tmp_path_factory.mktemp("ray"), RAY_TEMP_DIR)])
    yield started
    started.close()


@pytest.fixture
def ray(namespace: Namespace, tmp_path: Path, process_logs: ProcessLogs) -> Ray:
    """Ray and the server, both up, with the sample sessions stored."""
    storage = tmp_path / "tree"
    shutil.copytree(kuberay_samples() / "tree", storage)
    server_log = process_logs.add(tmp_path / "server.log")
    with server_log.open("ab") as output:
        server = namespace.popen(
            [
                *(sys.executable, "-m", "historyserver", "--storage-backend=local"),
                *(f"--storage-local-dir={storage}", f"--cache-dir={tmp_path / 'cache'}"),
                f"--port={SERVER_PORT}",
            ],
            env=environment(),
            cwd=REPOSITORY,
            output=output,
        )
    ray_log = process_logs.add(tmp_path / "ray.log")
    with ray_log.open("ab") as output:
        head = namespace.popen(
            [
                *(ray_command(), "start", "--head", "--block", "--node-ip-address=127.0.0.1"),
                *("--port=6379", "--dashboard-host=127.0.0.1"),
                *(f"--dashboard-port={DASHBOARD_PORT}", "--num-cpus=1", "--disable-usage-stats"),
                *("--object-store-memory=80000000", f"--temp-dir={RAY_TEMP_DIR}"),
                f"--proxy-server-url=http://127.0.0.1:{SERVER_PORT}",
            ],
            env=environment() | PATIENT,
            cwd=REPOSITORY,
            output=output,
        )
    wait_for(namespace, f"http://127.0.0.1:{SERVER_PORT}/readyz", server, server_log)
    wait_for(namespace, f"{DASHBOARD_URL}/clusters", head, ray_log)
    return Ray(namespace)


def _json(answer: Answer) -> Any:
    status, kind, body = answer
    assert (status, kind) == (200, "application/json"), body[:500]
    return json.loads(body)


@pytest.mark.ray
def test_the_local_dashboard_shows_the_chosen_session(ray: Ray) -> None:
    """List, choose, read, log, errors, and Ray's own page: one Ray, since it is slow to start."""
    page = {"Accept": "text/html", "User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}
    answers = ray.ask(
        ("GET", "/clusters"),
        ("GET", "/api/jobs/"),
        ("GET", f"/enter_cluster/ml/raycluster/v170/{SESSION}"),
        ("GET", "/api/jobs/", {"Accept-Encoding": "gzip"}),
        ("GET", "/api/v0/tasks?detail=1&limit=10000"),
        ("GET", "/nodes?view=summary"),
        ("GET", "/logical/actors/unknown"),
        ("GET", "/nodes/unknown"),
        ("GET", "/api/jobs/unknown"),
        ("GET", "/api/no/such/thing"),
        ("GET", "/", page),
        ("GET", "/api/jobs/sub-v170/logs"),
        ("GET", "/enter_cluster/ml/v162/live"),
        ("GET", "/api/version"),
        ("DELETE", "/api/jobs/sub-v170"),
    )
    assert {row["name"] for row in _json(answers[0])} == {"v162", "v170"}
    assert answers[1][0] == 400
    assert "no session is chosen" in answers[1][2]
    assert _json(answers[2])["result"] == "success"
    (job,) = (row for row in _json(answers[3]) if row["submission_id"] == "sub-v170")
    assert job["status"] == "SUCCEEDED"
    assert _json(answers[4])["data"]["result"]["total"] == 13
    assert len(_json(answers[5])["data"]["summary"]) == 2
    for answer in answers[6:10]:
        assert answer[0] in (200, 400), answer
        assert "127.0.0.1" not in answer[2]
    assert answers[10][0] == 200
    assert "<title>Ray Dashboard</title>" in answers[10][2]
    assert "last line" in _json(answers[11])["logs"]
    assert _json(answers[12])["session"] == SESSIONS["v162"]
    assert _json(answers[13])["session_name"] == SESSIONS["v162"]
    assert answers[14][0] == 405
