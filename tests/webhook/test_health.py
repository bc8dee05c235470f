"""Probes and metrics on their own port."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest

from webhook.health import MAX_CONNECTIONS, HealthServer, Readiness
from webhook.metrics import Verdict, WebhookMetrics


class Rig:
    """A server, and what its readiness depends on."""

    def __init__(self) -> None:
        self.problem = ""
        self.metrics = WebhookMetrics()
        self.readiness = Readiness({"certificate": lambda: self.problem})
        self.server = HealthServer(
            address="127.0.0.1", port=0, readiness=self.readiness, metrics=self.metrics
        )
        self.server.start()

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A running server."""
    made = Rig()
    yield made
    made.server.close()


def test_ready_says_why_not(rig: Rig) -> None:
    """A problem, then the end; alive all the time."""
    assert rig.get("/readyz") == (200, "ok\n")
    rig.problem = "the certificate has expired"
    assert rig.get("/readyz") == (503, "certificate: the certificate has expired\n")
    rig.problem = ""
    rig.readiness.stop()
    assert rig.get("/readyz") == (503, "stopping: the end has begun\n")
    assert rig.get("/healthz") == (200, "ok\n")
    assert rig.get("/healthz", "HEAD") == (200, "")
    assert rig.get("/other")[0] == 404


def test_metrics_are_shown(rig: Rig) -> None:
    """Admissions by decision, reason and mode, the time they took, and readiness."""
    rig.metrics.admission(
        verdict=Verdict.INJECTED, reason="namespace_label", mode="native", seconds=0.004
    )
    status, page = rig.get("/metrics")
    assert status == 200
    assert (
        'rayhistory_webhook_admissions_total{decision="injected",mode="native",'
        'reason="namespace_label"} 1.0' in page
    )
    assert 'rayhistory_webhook_admission_seconds_bucket{le="0.005"} 1.0' in page
    assert 'rayhistory_webhook_admission_seconds_bucket{le="0.003"} 0.0' in page
    assert "rayhistory_webhook_ready 1.0" in page
    assert 'rayhistory_webhook_bad_requests_total{reason="malformed"} 0.0' in page
    rig.problem = "x"
    assert "rayhistory_webhook_ready 0.0" in rig.get("/metrics")[1]


def test_silent_connections_are_bounded(rig: Rig) -> None:
    """Those above the limit are closed at once, and probes go on when they have gone."""
    silent = []
    for _ in range(MAX_CONNECTIONS + 8):
        silent.append(socket.create_connection(("127.0.0.1", rig.server.port), timeout=10))
    assert silent[-1].recv(1) == b""
    for one in silent:
        one.close()
    for _ in range(50):
        try:
            if rig.get("/healthz")[0] == 200:
                break
        except OSError:
            continue
    assert rig.get("/healthz") == (200, "ok\n")
