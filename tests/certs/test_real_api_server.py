"""`certs` on a real API server, as the chart installs it: two replicas, least rights."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certs.certs_process import HOOKS, CertsProcess, Installation, installation, until
from tests.certs.tls_server import ReviewServer
from tests.cluster.apiserver import ApiServer
from tests.cluster.client import RefusedError

pytestmark = pytest.mark.kube
NEW = {"metadata": {"generateName": "c-"}}


@pytest.fixture
def installed(api_server: ApiServer, tmp_path: Path) -> Iterator[Installation]:
    made = installation(api_server, tmp_path)
    yield made
    made.close()


def both_ready(installed: Installation) -> list[CertsProcess]:
    replicas = [installed.run(name) for name in ("first", "second")]
    for replica in replicas:
        until(f"{replica.name} is ready", replica.ready)
    until("the bundle is published", installed.is_published)
    return replicas


def leading(replicas: list[CertsProcess]) -> CertsProcess:
    """The one that leads, when there is exactly one."""

    def one() -> CertsProcess | None:
        leaders = [replica for replica in replicas if replica.metric("leader") == 1]
        return leaders[0] if len(leaders) == 1 else None

    found = until("one leads", one)
    assert isinstance(found, CertsProcess)
    return found


def test_two_replicas_install_and_show(installed: Installation) -> None:
    """Both serve the same pair; entries of others are left alone; `show` finds no fault."""
    first, second = both_ready(installed)
    certificate = installed.secret()["tls.crt"]
    assert (first.folder / "tls.crt").read_bytes() == certificate
    assert (second.folder / "tls.crt").read_bytes() == certificate
    bundle = installed.secret()["ca.crt"]
    assert installed.bundles() == [bundle, bundle, b""]
    assert leading([first, second])

    shown = installed.command("show")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert f"configuration {installed.hooks}: current" in shown.stdout
    report = json.loads(installed.command("show", "--json").stdout)
    assert report["leader"] == installed.leader()
    assert report["leaf"]["names"] == sorted(
        [
            f"hooks.{installed.namespace}.svc",
            f"hooks.{installed.namespace}.svc.cluster.local",
            "localhost",
        ]
    )
    assert [authority["stage"] for authority in report["authorities"]] == ["signing"]
    assert report["problems"] == report["due"] == []
    assert "PRIVATE" not in json.dumps(report) + shown.stdout
    for one in (first, second):
        assert {"time", "level", "logger", "message"} <= set(one.lines()[0])
        assert "PRIVATE" not in one.log.read_text()


def test_a_configuration_applied_anew_is_healed_within_seconds(installed: Installation) -> None:
    """By the watch: much sooner than the next look at everything."""
    replicas = [
        installed.run(name, checkEverySeconds=30, leaseSeconds=100) for name in ("first", "second")
    ]
    until("the bundle is published", installed.is_published)
    leader = leading(replicas)
    for _ in range(3):
        installed.apply()
        until("the bundle is back", installed.is_published, within_s=5)
    assert leader.metric(f'bundle_repairs_total{{configuration="{installed.hooks}"}}') == 3
    installed.admin.delete(f"{HOOKS}/{installed.hooks}")
    installed.apply()
    until("the bundle is there", installed.is_published, within_s=5)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_another_replica_takes_over(installed: Installation, number: signal.Signals) -> None:
    """After an orderly end at once, after a kill when the Lease has run out."""
    replicas = both_ready(installed)
    leader = leading(replicas)
    before = installed.leader()
    status = leader.stop(number)
    assert status == (0 if number is signal.SIGTERM else -number)
    other = next(one for one in replicas if one is not leader)
    until("the other leads", lambda: other.metric("leader") == 1, within_s=20)
    assert installed.leader() not in ("", before)
    installed.apply()
    until("the bundle is back", installed.is_published, within_s=10)
    if number is signal.SIGTERM:
        assert [line["message"] for line in leader.lines()[-2:]] == ["lease released", "ended"]
        assert (leader.folder / "tls.crt").exists()


def test_an_api_server_that_restarts_is_found_again(
    installed: Installation, api_server: ApiServer
) -> None:
    """Replicas live on, and files stay."""
    replicas = both_ready(installed)
    api_server.restart(down_s=2.0)
    assert [one.process.poll() for one in replicas] == [None, None]
    assert all(one.ready() for one in replicas)
    leading(replicas)
    installed.apply()
    until("the bundle is back", installed.is_published, within_s=40)


def test_what_it_may_not_do_is_told_and_counted(api_server: ApiServer, tmp_path: Path) -> None:
    """A configuration that RBAC does not name; the files are there all the same."""
    made = installation(api_server, tmp_path)
    try:
        only = made.run("first", configurations=["somebody-elses"])
        until("it is ready", only.ready)
        until("it is counted", lambda: only.metric('errors_total{reason="forbidden"}') > 1)
        told = [line for line in only.lines() if "forbidden" in line.get("error", "")]
        assert len(told) == 1
        assert "somebody-elses" in told[0]["error"]
        assert made.command("show").returncode == 1
    finally:
        made.close()


def test_a_missing_secret_is_told(api_server: ApiServer, tmp_path: Path) -> None:
    """The chart owns it; and with `createSecret` but no right to, the API server's word."""
    made = installation(api_server, tmp_path, with_secret=False)
    try:
        only = made.run("first")
        until("it is told", lambda: "the Secret does not exist" in only.log.read_text())
        assert not only.ready()
        assert only.stop() == 0
        other = made.run("second", createSecret=True)
        until("it is told", lambda: "cannot create resource" in other.log.read_text())
    finally:
        made.close()


@pytest.mark.slow
def test_no_admission_fails_while_certificates_rotate(installed: Installation) -> None:
    """Two CAs and six leaves; `failurePolicy: Fail`; the API server's own handshakes."""
    replicas = both_ready(installed)
    reviews = ReviewServer(replicas[0].folder)
    ended, failed, made = threading.Event(), list[str](), list[int]()
    objects = f"/api/v1/namespaces/{installed.namespace}/configmaps"

    def admit() -> None:
        while not ended.is_set():
            try:
                answer = installed.admin.post(objects, NEW)
                made.append(answer["data"]["reviewed"] == "yes")
            except (RefusedError, KeyError) as error:
                failed.append(repr(error))

    def rotated(*arguments: str) -> None:
        done = installed.command("rotate", *arguments)
        assert done.returncode == 0, done.stderr

    threads = [threading.Thread(target=admit) for _ in range(2)]
    try:
        reviews.refresh()
        installed.apply(reviews.port)
        until("the bundle is back", installed.is_published, within_s=10)
        until("a first admission", lambda: installed.admin.post(objects, NEW))
        for thread in threads:
            thread.start()
        for _ in range(2):
            trusted = installed.secret()["ca.crt"]
            rotated("--ca")
            for _ in range(2):
                rotated()
                time.sleep(1)
            until("the new CA is alone", lambda: installed.is_alone(trusted))  # noqa: B023
    finally:
        ended.set()
        for thread in threads:
            if thread.ident:
                thread.join()
        reviews.close()
    assert failed == []
    assert len(made) > 100
    assert all(made)
    assert len(reviews.served) >= 6
    for one in replicas:
        assert one.metric('rotations_total{kind="leaf",reason="authority_replaced"}') == 2
        assert one.metric('rotations_total{kind="authority",reason="requested"}') == 2
