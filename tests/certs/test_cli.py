"""The command: exit status, and what it says."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from certs import cli
from certs.authority import EcForge
from certs.clock import ServerClock
from certs.cluster import Failure
from certs.kept import Reason
from certs.rotation import plan
from certs.settings import Settings
from certs.state import Configuration, State
from certs.steps import MakeAuthority, Publish, applied
from certs.stored import from_data, to_data
from tests.certs.fake_cluster import FakeCluster

REQUIRED = ["--namespace=ns", "--service=hooks", "--secret=hooks-tls", "--configurations=hooks"]
POLICY = Settings(namespace="ns", service="hooks").policy


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = before, level


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Installed, and reached by the command."""
    made, now = FakeCluster(), ServerClock().now()
    for _ in range(10):
        kept = from_data(made.secret_data or {}).kept
        seen = Configuration("hooks", made.configurations["hooks"])
        due = plan(State(kept, (seen,)), now, POLICY)
        if not due:
            break
        if isinstance(due[0], Publish):
            made.configurations["hooks"] = (kept.bundle,)
        made.secret_data = to_data(applied(kept, due[0], forge=EcForge(), now=now, policy=POLICY))
    monkeypatch.setattr(cli, "reach", lambda settings, clock: made)
    return made


def test_show_tells_what_is_kept(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """For people."""
    del cluster
    assert cli.main(["show", *REQUIRED]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("CA ")
    assert said[0].endswith("signing")
    assert said[1].startswith("leaf ")
    assert "for hooks.ns.svc, hooks.ns.svc.cluster.local" in said[2]
    assert said[3:] == ["configuration hooks: current", "leader: nobody"]


def shown(capsys: pytest.CaptureFixture[str], status: int) -> dict[str, Any]:
    assert cli.main(["show", "--json", *REQUIRED]) == status
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_show_tells_problems_by_its_status(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline may ask."""
    assert shown(capsys, 0)["problems"] == []
    cluster.apply("hooks")
    report = shown(capsys, 1)
    assert report["configurations"] == [{"name": "hooks", "state": "outdated"}]
    assert report["problems"] == ["not every configuration trusts the CA that signed the leaf"]
    assert report["due"] == ["Publish hooks True"]
    del cluster.configurations["hooks"]
    assert shown(capsys, 0)["configurations"][0]["state"] == "missing"
    cluster.faults["configuration"] = Failure.FORBIDDEN
    assert shown(capsys, 1)["configurations"][0]["state"] == "unreadable"
    cluster.secret_data = None
    report = shown(capsys, 1)
    assert report["leaf"] is None
    assert "the Secret does not exist" in report["problems"]
    assert "there is no leaf" in report["problems"]


def test_rotate_makes_a_new_leaf_by_the_same_authority(cluster: FakeCluster) -> None:
    """At once."""
    before = from_data(cluster.secret_data or {}).kept
    assert cli.main(["rotate", *REQUIRED]) == 0
    after = from_data(cluster.secret_data or {}).kept
    assert before.leaf is not None
    assert after.leaf is not None
    assert after.leaf.id != before.leaf.id
    assert after.leaf.authority == before.leaf.authority
    assert after.leaf.reason is Reason.REQUESTED


def test_rotate_ca_begins_a_rotation_once(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The leaf stays; the leader does the rest, and until then there is no other."""
    before = from_data(cluster.secret_data or {}).kept
    assert cli.main(["rotate", "--ca", *REQUIRED]) == 0
    assert "signs with it 900 s later" in capsys.readouterr().out
    after = from_data(cluster.secret_data or {}).kept
    assert after.leaf == before.leaf
    assert [a.id for a in after.authorities[:-1]] == [a.id for a in before.authorities]
    assert cli.main(["rotate", "--ca", *REQUIRED]) == 1
    assert "on its way already" in capsys.readouterr().err
    assert from_data(cluster.secret_data or {}).kept == after


def test_rotate_looks_again_when_another_writes(cluster: FakeCluster) -> None:
    """The leader wrote meanwhile."""
    cluster.before["write_secret"] = lambda: cluster.touch("secret")
    assert cli.main(["rotate", *REQUIRED]) == 0
    assert cluster.calls.count("write_secret") == 2


def test_rotate_without_any_authority_is_refused(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing can sign."""
    cluster.secret_data = {}
    assert cli.main(["rotate", *REQUIRED]) == 1
    assert capsys.readouterr().err == ("certs: error: no CA can sign now; `certs run` makes one\n")
    assert cli.main(["rotate", "--ca", *REQUIRED]) == 0
    assert len(from_data(cluster.secret_data).kept.authorities) == 1


def test_an_api_server_that_does_not_answer_is_one_line(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 1."""
    cluster.faults["secret"] = Failure.UNREACHABLE
    for verb in ("show", "rotate"):
        assert cli.main([verb, *REQUIRED]) == 1
        assert capsys.readouterr().err == "certs: error: secret: unreachable\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["run"], "namespace: not set"),
        (["show", "--jsn", *REQUIRED], "--jsn: unknown option"),
        (["rotate", "--json", *REQUIRED], "--json: unknown option"),
        (["dance"], "dance: unknown; there is run, show, rotate"),
    ],
)
def test_wrong_settings_end_with_2_and_one_line(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the other programs do."""
    assert cli.main(argv) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"certs: error: {said}")
    assert error.count("\n") == 1


def test_help_names_every_verb_and_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing said at all is a mistake."""
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    for word in ("run", "show", "rotate", "--leaf-days", "CERTS_LEAF_DAYS", "leafDays", "--config"):
        assert word in text
    assert cli.main([]) == 2


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the distribution."""
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("certs ")


def test_run_outside_a_cluster_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a kubeconfig nor a pod's account."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert cli.main(["run", *REQUIRED]) == 1
    assert "no API server: the pod's account cannot be used" in capsys.readouterr().err


def test_run_on_a_taken_port_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is done."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        argv = ["run", *REQUIRED, f"--health-port={port}", f"--kubeconfig={kubeconfig}"]
        assert cli.main(argv) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_a_broken_kubeconfig_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its name."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("nonsense: [")
    assert cli.main(["show", *REQUIRED, f"--kubeconfig={kubeconfig}"]) == 1
    assert str(kubeconfig) in capsys.readouterr().err


def test_a_new_authority_is_shown_by_its_stage(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """`new` until every configuration holds it."""
    assert cli.main(["rotate", "--ca", *REQUIRED]) == 0
    capsys.readouterr()
    report = shown(capsys, 0)
    assert [a["stage"] for a in report["authorities"]] == ["signing", "new"]
    assert MakeAuthority(Reason.REQUESTED).reason.value == report["authorities"][1]["reason"]
    assert cluster.calls.count("write_secret") == 1
