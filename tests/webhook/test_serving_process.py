"""The webhook as a process: an end without losses, new certificates under load, slow clients."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ProcessLogs
from tests.webhook import review_kit, review_load
from tests.webhook.review_kit import ROOT, SERVER_NAME
from tests.webhook.review_load import Plan
from tests.webhook.webhook_process import WebhookProcess, free_port


class Starter:
    """Starts webhooks over the same certificate, and ends them."""

    def __init__(self, folder: Path, logs: ProcessLogs) -> None:
        self._folder = folder
        self._logs = logs
        self._started: list[WebhookProcess] = []

    def start(self, *flags: str) -> WebhookProcess:
        first = self._started[0].certificates if self._started else None
        made = WebhookProcess(self._folder, *flags, certificates=first)
        self._logs.add(made.log)
        self._started.append(made)
        return made.wait_ready()

    def plan(self, *webhooks: WebhookProcess, **values: float) -> Plan:
        """What to send to them."""
        ca_file = str(self._started[0].certificates.ca_file)
        plan = Plan([one.port for one in webhooks], ca_file)
        for name, value in values.items():
            setattr(plan, name, value)
        return plan

    def close(self) -> None:
        for one in self._started:
            if one.process.poll() is None:
                one.stop()


@pytest.fixture
def starter(tmp_path: Path, process_logs: ProcessLogs) -> Iterator[Starter]:
    """Starts webhooks."""
    made = Starter(tmp_path, process_logs)
    yield made
    made.close()


def test_sigterm_loses_no_review(starter: Starter) -> None:
    """Readiness ends first; each connection is closed with an answer, and goes to the other."""
    old = starter.start("--listen-drain-seconds=4")
    new = starter.start("--listen-drain-seconds=0")
    load = review_load.start(starter.plan(old, new, connections=6, count=900, per_s=150))
    old.wait_reviews(150)
    old.process.send_signal(signal.SIGTERM)
    text = old.wait_status("/readyz", 503, timeout_s=3.5)
    assert "stopping" in text
    assert old.probe("/healthz")[0] == 200
    assert old.process.wait(20) == 0
    report = review_load.report_of(load)
    assert report.faults == []
    assert len(report.times_ms) == 900
    answered = [old.reviews(), new.reviews()]
    assert min(answered) > 100
    assert sum(answered) == 900


def test_connections_are_taken_until_the_end_is_known(starter: Starter) -> None:
    """After SIGTERM too: an API server that has not heard of it yet gets its answer."""
    webhook = starter.start("--listen-drain-seconds=8")
    webhook.process.terminate()
    webhook.wait_status("/readyz", 503)
    report = review_load.report_of(
        review_load.start(starter.plan(webhook, connections=2, count=40))
    )
    assert report.faults == []
    assert len(report.times_ms) == 40
    assert webhook.process.wait(20) == 0


def test_certificates_are_exchanged_under_load(starter: Starter) -> None:
    """Every review is answered, on new and on kept connections; every certificate is served."""
    webhook = starter.start("--listen-drain-seconds=0")
    kept = starter.plan(webhook, connections=2, count=900, per_s=150)
    fresh = starter.plan(webhook, connections=4, count=360, per_s=60, reviews_per_connection=1)
    loads = [review_load.start(plan) for plan in (kept, fresh)]
    for number in range(1, 5):
        webhook.wait_reviews(number * 250)
        webhook.certificates.rotate()
    reports = [review_load.report_of(load) for load in loads]
    assert [report.faults for report in reports] == [[], []]
    assert [len(report.times_ms) for report in reports] == [900, 360]
    assert reports[1].certificates >= 4
    reloads = "rayhistory_webhook_certificate_reloads_total"
    assert webhook.metric(f'{reloads}{{outcome="loaded"}}') == 5
    assert webhook.metric(f'{reloads}{{outcome="failed"}}') == 0


def test_certificates_may_come_after_the_start(starter: Starter, tmp_path: Path) -> None:
    """Another container writes them; until then: alive, not ready, no handshake."""
    first = starter.start("--listen-drain-seconds=0")
    certificates = first.certificates
    hidden = certificates.folder.rename(tmp_path / "hidden")
    webhook = WebhookProcess(tmp_path, "--listen-drain-seconds=0", certificates=certificates)
    try:
        assert "no certificate" in webhook.wait_status("/readyz", 503)
        assert webhook.probe("/healthz")[0] == 200
        plan = Plan([webhook.port], str(hidden / "ca.crt"), connections=1, count=3)
        assert len(review_load.report_of(review_load.start(plan)).faults) == 3
        hidden.rename(certificates.folder)
        webhook.wait_ready()
        plan = Plan([webhook.port], str(certificates.ca_file), connections=1, count=3)
        assert review_load.report_of(review_load.start(plan)).faults == []
    finally:
        webhook.stop()


def test_silent_and_slow_clients_hold_nobody_up(starter: Starter) -> None:
    """More of them than there are threads: each that says nothing needs none of these."""
    webhook = starter.start("--listen-drain-seconds=0", "--listen-threads=4")
    silent = [socket.create_connection(("127.0.0.1", webhook.port)) for _ in range(40)]
    report = review_load.report_of(
        review_load.start(starter.plan(webhook, connections=2, count=40))
    )
    assert report.faults == []
    assert report.part_ms(1.0) < 2000
    slow = [socket.create_connection(("127.0.0.1", webhook.port)) for _ in range(4)]
    for one in slow:
        one.sendall(b"\x16\x03\x01\x02\x00")  # the beginning of a handshake, and no more
    time.sleep(0.5)
    started_s = time.monotonic()
    for one in slow:
        one.settimeout(15)
        assert one.recv(1) == b""
    assert time.monotonic() - started_s < 10
    report = review_load.report_of(
        review_load.start(starter.plan(webhook, connections=2, count=10))
    )
    assert report.faults == []
    for one in (*silent, *slow):
        one.close()


def test_nonsense_on_the_port_is_no_fault(starter: Starter) -> None:
    """Plain HTTP, noise and half requests are closed; nothing of it is an error in the log."""
    webhook = starter.start("--listen-drain-seconds=0")
    context = ssl.create_default_context(cafile=str(webhook.certificates.ca_file))
    for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100, b"\x16\x03\x01"):
        with socket.create_connection(("127.0.0.1", webhook.port)) as plain:
            plain.sendall(noise)
    for noise in (
        b"NONSENSE\r\n\r\n",
        b"POST /mutate/namespace HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ):
        with (
            socket.create_connection(("127.0.0.1", webhook.port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=SERVER_NAME) as wire,
        ):
            wire.sendall(noise)
            assert b" 200 " not in wire.recv(1000)
    asked = http.client.HTTPSConnection(SERVER_NAME, webhook.port, context=context, timeout=10)
    asked.sock = context.wrap_socket(
        socket.create_connection(("127.0.0.1", webhook.port)), server_hostname=SERVER_NAME
    )
    for method in ("HEAD", "GET", "OPTIONS"):  # on one connection: it stays in step
        asked.request(method, "/mutate/namespace")
        answer = asked.getresponse()
        assert answer.status == (200 if method == "OPTIONS" else 405)
        assert bool(answer.read()) is (method == "GET")
    asked.close()
    webhook.stop()
    assert [line for line in webhook.lines() if line["level"] != "info"] == []


def test_pods_come_in_while_the_api_server_is_away(
    tmp_path: Path, process_logs: ProcessLogs
) -> None:
    """`webhook serve` itself: not ready, yet what is asked is answered, soon and untouched."""
    away = {"clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}]}
    context = {"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
    kubeconfig = {**away, **context, "users": [{"name": "u", "user": {}}], "current-context": "c"}
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    webhook = WebhookProcess(
        tmp_path,
        *(f"--kubernetes-kubeconfig={tmp_path}/kubeconfig", "--listen-drain-seconds=0"),
        program=("webhook", "serve"),
    )
    process_logs.add(webhook.log)
    webhook.wait_status("/readyz", 503)
    tls = ssl.create_default_context(cafile=str(webhook.certificates.ca_file))
    tls.check_hostname = False
    asked = http.client.HTTPSConnection("127.0.0.1", webhook.port, context=tls, timeout=10)
    started_s = time.monotonic()
    asked.request(
        "POST",
        "/mutate/namespace",
        review_kit.body(review_kit.review(review_kit.pod())),
        {"Content-Type": "application/json"},
    )
    response = json.loads(asked.getresponse().read())["response"]
    asked.close()
    assert time.monotonic() - started_s < 4
    assert response["allowed"] is True
    assert "patch" not in response
    assert response["auditAnnotations"]["reason"] == "lookup_failed"
    assert webhook.stop() == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "collector.image: not set"),
        (["--collector-image=a", "--listen-port=0"], "--listen-port=0: Expected `int` >= 1"),
        (["--colector-image=a"], "did you mean collector-image?"),
        (["--config=/nonexistent"], "/nonexistent"),
    ],
)
def test_a_wrong_setting_ends_it_with_one_line(flags: list[str], said: str) -> None:
    """Exit status 2."""
    ended = subprocess.run(
        [sys.executable, "-m", "webhook", "serve", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""
