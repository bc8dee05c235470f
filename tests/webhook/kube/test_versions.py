"""Native sidecars: yes only when server and every schedulable node say so."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.webhook.kube.api_double import Answer, ApiDouble, Asked, refusal
from tests.webhook.kube.conftest import Wait
from webhook.kube.client import Api
from webhook.kube.versions import SidecarSupport
from webhook.settings import SidecarMode


class Cluster:
    """A server and its nodes' kubelets, as their table."""

    def __init__(self) -> None:
        self.server = "v1.34.4"
        self.kubelets = ["v1.34.4"]
        self.columns = ["Name", "Status", "Version"]
        self.page = 500

    def __call__(self, asked: Asked) -> Answer | None:
        if asked.path == "/version":
            return Answer(200, {"major": "1", "gitVersion": self.server})
        if asked.path != "/api/v1/nodes":
            return None
        begin = int(asked.query.get("continue", 0))
        rows = [{"cells": [f"n{at}", "Ready", v]} for at, v in enumerate(self.kubelets)]
        meta: dict[str, Any] = {"resourceVersion": "1"}
        if begin + self.page < len(rows):
            meta["continue"] = str(begin + self.page)
        return Answer(
            200,
            {
                "kind": "Table",
                "metadata": meta,
                "columnDefinitions": [{"name": name, "priority": 0} for name in self.columns],
                "rows": rows[begin : begin + self.page],
            },
        )


class Clock:
    """A clock that the test moves."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def cluster(double: ApiDouble) -> Cluster:
    """All new."""
    rule = Cluster()
    double.rules.append(rule)
    return rule


@pytest.fixture
def clock() -> Clock:
    """Stands still."""
    return Clock()


@pytest.fixture
def support(api: Api, cluster: Cluster, clock: Clock) -> SidecarSupport:
    """Detects."""
    return SidecarSupport(api, mode=SidecarMode.AUTO, clock=clock)


@pytest.mark.parametrize(
    ("server", "kubelets", "expected"),
    [
        ("v1.29.0", ["v1.29.0"], True),
        ("v1.34.4-gke.100", ["v1.33.1-gke.2", "v1.34.4-eks-abc"], True),
        ("v2.0.0", ["v2.0.0"], True),
        ("v1.28.9", ["v1.29.0"], False),
        ("v1.31.0", ["v1.31.0", "v1.28.5"], False),
        ("v1.31.0", ["v1.31.0", "v1.19.16-vk"], False),
        ("v1.31.0", ["v1.31.0", "unknown"], False),
        ("v1.31.0", ["v1.31.0", ""], False),
        ("v1.31.0", [], False),
        ("", ["v1.31.0"], False),
    ],
)
def test_every_version_counts(
    support: SidecarSupport, cluster: Cluster, server: str, kubelets: list[str], expected: bool
) -> None:
    """In doubt no: the classic form works everywhere."""
    cluster.server, cluster.kubelets = server, kubelets
    support.check()
    assert support.is_native() is expected


def test_all_pages_are_asked_of_schedulable_nodes_without_objects(
    double: ApiDouble, support: SidecarSupport, cluster: Cluster
) -> None:
    """The one old node may be on the last page; a node object is 15 kB."""
    cluster.page = 2
    cluster.kubelets = ["v1.34.0"] * 4 + ["v1.28.0"]
    support.check()
    assert not support.is_native()
    asked = double.requests("GET", "/nodes")
    assert [one.query.get("continue") for one in asked] == [None, "2", "4"]
    assert asked[0].query["fieldSelector"] == "spec.unschedulable=false"
    assert asked[0].query["includeObject"] == "None"
    assert "as=Table" in asked[0].headers["Accept"]


def test_a_table_without_versions_is_in_doubt(support: SidecarSupport, cluster: Cluster) -> None:
    """Columns are for people; should they change, the answer is no."""
    cluster.columns = ["Name", "Status", "Kubelet"]
    support.check()
    assert not support.is_native()


def test_an_old_node_that_joins_changes_the_answer(
    support: SidecarSupport, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """And back, when it is gone."""
    support.check()
    assert support.is_native()
    cluster.kubelets.append("v1.28.3")
    with caplog.at_level("INFO", logger="webhook.kube"):
        support.check()
        support.check()
    assert not support.is_native()
    assert caplog.messages == ["classic sidecars: the kubelet of node n1 is v1.28.3"]
    cluster.kubelets.pop()
    support.check()
    assert support.is_native()


def test_an_answer_outlives_a_short_outage_only(
    double: ApiDouble, support: SidecarSupport, clock: Clock
) -> None:
    """Older than five minutes it is in doubt."""
    support.check()
    double.rules.insert(0, lambda _: refusal(503, "ServiceUnavailable", "starting"))
    clock.now_s += 60
    support.check()
    assert support.is_native()
    clock.now_s += 241
    assert not support.is_native()


def test_a_missing_right_is_a_no_and_an_answer(double: ApiDouble, support: SidecarSupport) -> None:
    """Readiness must not wait for ever."""
    double.rules.insert(0, lambda _: refusal(403, "Forbidden", "nodes is forbidden"))
    assert support.problem()
    assert not support.is_native()
    support.check()
    assert (support.problem(), support.is_native()) == ("", False)


@pytest.mark.parametrize(
    ("mode", "expected"), [(SidecarMode.NATIVE, True), (SidecarMode.CLASSIC, False)]
)
def test_a_fixed_mode_asks_nothing(
    double: ApiDouble, api: Api, mode: SidecarMode, expected: bool
) -> None:
    """So that no right to list nodes is needed."""
    before = threading.active_count()
    support = SidecarSupport(api, mode=mode)
    support.start()
    assert (support.problem(), support.is_native()) == ("", expected)
    assert threading.active_count() == before
    support.stop()
    assert double.asked == []


def test_asks_again_and_again(double: ApiDouble, api: Api, cluster: Cluster, wait: Wait) -> None:
    """A cluster's nodes change while the webhook runs."""
    support = SidecarSupport(api, mode=SidecarMode.AUTO, every_s=0.05)
    support.start()
    wait(lambda: len(double.requests("GET", "/version")) >= 3)
    support.stop()
    assert support.is_native()
