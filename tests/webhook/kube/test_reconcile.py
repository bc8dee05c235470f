"""The report finds running pods that should have a collector, and says it once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webhook.kube.api_double import Answer, ApiDouble, Asked, refusal
from tests.webhook.kube.conftest import Sample
from webhook.decisions import decide
from webhook.facts import ClusterFacts, NamespaceFacts
from webhook.kube.client import Api
from webhook.kube.metrics import KubeMetrics
from webhook.kube.reconcile import Reconcile
from webhook.settings import Settings

YES = {"rayhistory.io/inject": "enabled"}


class World:
    """What the watches know and what was recorded."""

    def __init__(self) -> None:
        self.namespaces = {"ns": YES, "plain": {}}
        self.clusters = {
            ("ns", "one"): ClusterFacts(namespace="ns", name="one", uid="u1"),
            ("plain", "acked"): ClusterFacts(
                namespace="plain",
                name="acked",
                uid="u2",
                annotations={"ray.alibabacloud.com/enable-historyserver": "true"},
            ),
        }
        self.events: list[tuple[str, str, str, str]] = []
        self.now_s = 0.0
        self.is_synced = True

    def known_cluster(self, namespace: str, name: str) -> ClusterFacts | None:
        return self.clusters.get((namespace, name))

    def known_namespace(self, name: str) -> NamespaceFacts | None:
        return NamespaceFacts(name, self.namespaces[name]) if name in self.namespaces else None

    def record(self, cluster: ClusterFacts, reason: str, message: str, kind: str) -> None:
        self.events.append((cluster.name, reason, message, kind))


class Pods:
    """All Ray pods, two a page."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []

    def __call__(self, asked: Asked) -> Answer | None:
        begin = int(asked.query.get("continue", 0))
        meta = {"continue": str(begin + 2)} if begin + 2 < len(self.items) else {}
        return Answer(200, {"metadata": meta, "items": self.items[begin : begin + 2]})

    def add(
        self,
        *,
        namespace: str = "ns",
        cluster: str = "one",
        containers: tuple[str, ...] = (),
        **meta: Any,
    ) -> None:
        """A pod with Ray and these containers."""
        labels = {"ray.io/cluster": cluster, "ray.io/node-type": "worker"}
        names = ("ray-worker", *containers)
        self.items.append(
            {
                "metadata": {"name": "p", "namespace": namespace, "labels": labels, **meta},
                "spec": {"containers": [{"name": name, "image": "i"} for name in names]},
            }
        )


@pytest.fixture
def world() -> World:
    """A labelled namespace and an annotated cluster."""
    return World()


@pytest.fixture
def pods(double: ApiDouble) -> Pods:
    """None yet."""
    rule = Pods()
    double.rules.append(rule)
    return rule


@pytest.fixture
def reconcile(api: Api, world: World, pods: Pods, metrics: KubeMetrics) -> Reconcile:
    """With the real decision."""
    return Reconcile(
        api=api,
        known=world,
        decide=decide,
        record=world.record,
        settings=Settings(),
        metrics=metrics,
        is_synced=lambda: world.is_synced,
        clock=lambda: world.now_s,
    )


def test_counts_by_namespace_and_reason(
    reconcile: Reconcile, pods: Pods, world: World, sample: Sample, double: ApiDouble
) -> None:
    """One Event per cluster, however many pods."""
    for _ in range(3):
        pods.add()
    pods.add(namespace="plain", cluster="acked")
    reconcile.once()
    assert sample("pods_without_collector", namespace="ns", reason="namespace_label") == 3
    assert sample("pods_without_collector", namespace="plain", reason="cluster_annotation") == 1
    assert [(name, reason, kind) for name, reason, _, kind in world.events] == [
        ("one", "collector_missing", "Warning"),
        ("acked", "collector_missing", "Warning"),
    ]
    assert world.events[0][2].startswith("3 pods run without a collector")
    assert world.events[1][2].startswith("1 pod runs without a collector")
    assert [one.query.get("continue") for one in double.asked] == [None, "2"]
    assert (
        double.asked[0].query["labelSelector"] == "ray.io/cluster,ray.io/node-type in (head,worker)"
    )
    assert double.asked[0].query["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"


def test_leaves_out_what_should_have_none(
    reconcile: Reconcile, pods: Pods, world: World, registry: Any
) -> None:
    """Injected, KubeRay's own, opted out, ending, not asked for."""
    pods.add(containers=("rayhs-collector",), annotations={"rayhistory.io/status": "{}"})
    pods.add(containers=("ray-history-collector",))
    pods.add(annotations={"rayhistory.io/inject": "false"})
    pods.add(deletionTimestamp="2026-11-30T10:00:00Z")
    pods.add(namespace="plain", cluster="other")
    pods.add(namespace="unknown", cluster="other")
    reconcile.once()
    assert world.events == []
    found = [metric for metric in registry.collect() if metric.name.endswith("without_collector")]
    assert found[0].samples == []


def test_a_mended_namespace_vanishes_from_the_metric(
    reconcile: Reconcile, pods: Pods, registry: Any, sample: Sample
) -> None:
    """No series that stays at its last value."""
    pods.add()
    reconcile.once()
    assert sample("pods_without_collector", namespace="ns", reason="namespace_label") == 1
    pods.items.clear()
    reconcile.once()
    found = [metric for metric in registry.collect() if metric.name.endswith("without_collector")]
    assert found[0].samples == []


def test_says_it_again_only_before_kubernetes_forgets(
    reconcile: Reconcile, pods: Pods, world: World
) -> None:
    """An Event lives for an hour; a new cluster of the name is told at once."""
    pods.add()
    for world.now_s in (0.0, 60.0, 2999.0):
        reconcile.once()
    assert len(world.events) == 1
    world.now_s = 3000.0
    reconcile.once()
    assert len(world.events) == 2
    world.clusters["ns", "one"] = ClusterFacts(namespace="ns", name="one", uid="u9")
    reconcile.once()
    assert len(world.events) == 3


def test_a_pod_of_a_cluster_that_is_not_known_is_counted_without_an_event(
    reconcile: Reconcile, pods: Pods, world: World, sample: Sample
) -> None:
    """There is nothing that the Event could be on."""
    pods.add(cluster="handmade")
    reconcile.once()
    assert sample("pods_without_collector", namespace="ns", reason="namespace_label") == 1
    assert world.events == []


def test_a_failed_round_keeps_the_last_numbers(
    reconcile: Reconcile, pods: Pods, double: ApiDouble, sample: Sample
) -> None:
    """A half list must not look like a repair."""
    pods.add()
    reconcile.once()
    double.rules.insert(0, lambda _: refusal(403, "Forbidden", "pods is forbidden"))
    reconcile.once()
    assert sample("pods_without_collector", namespace="ns", reason="namespace_label") == 1
    assert sample("reports_total", outcome="failed") == 1
    assert sample("reports_total", outcome="complete") == 1


def test_before_the_copies_are_there_nothing_is_said(
    reconcile: Reconcile, pods: Pods, world: World, double: ApiDouble
) -> None:
    """An empty copy would make every pod `not asked for`."""
    world.is_synced = False
    pods.add()
    reconcile.once()
    assert double.asked == []
