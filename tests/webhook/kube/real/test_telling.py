"""Events and the report on a real API server."""

from __future__ import annotations

import time
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.cluster.client import Client
from tests.webhook.kube.conftest import Sample, Wait
from tests.webhook.kube.real.conftest import Start
from tests.webhook.kube.real.objects import make_cluster, make_pod

pytestmark = pytest.mark.kube


def test_events_are_valid_counted_and_shared(
    admin: Client, namespace: str, start: Start, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two replicas, many pods: one Event of each reason, as `kubectl describe` shows it."""
    monkeypatch.setattr("webhook.kube.events._REPEAT_S", 0.2)
    monkeypatch.setattr("webhook.kube.events._AGAIN_S", 0.2)
    cluster = make_cluster(admin, namespace)
    tellers = [start(registry=CollectorRegistry()).events for _ in range(2)]
    for _ in range(5):
        for teller in tellers:
            teller.record(cluster, "namespace_label", "added " + "ü" * 2000, "Normal")
        time.sleep(0.1)

    def found() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = admin.get(
            f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        )["items"]
        return items

    def count() -> int:
        return sum(int(event.get("series", {"count": 1})["count"]) for event in found())

    wait(lambda: count() == 10)
    (event,) = found()
    assert (event["reason"], event["type"]) == ("NamespaceLabel", "Normal")
    assert event["regarding"]["uid"] == cluster.uid
    # The older API's view, which `kubectl describe` asks by the involved object.
    old = admin.get(
        f"/api/v1/namespaces/{namespace}/events"
        f"?fieldSelector=involvedObject.uid%3D{cluster.uid},involvedObject.kind%3DRayCluster"
    )
    assert [one["metadata"]["name"] for one in old["items"]] == [event["metadata"]["name"]]


def test_pods_without_a_collector_are_reported(
    admin: Client, namespace: str, start: Start, wait: Wait, sample: Sample
) -> None:
    """Made while the webhook was away."""
    cluster = make_cluster(admin, namespace)
    for _ in range(3):
        make_pod(admin, namespace)
    parts = start()

    def missing() -> float:
        return sample("pods_without_collector", namespace=namespace, reason="namespace_label")

    wait(lambda: missing() == 3)
    events = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    wait(lambda: admin.get(events)["items"])
    (event,) = admin.get(events)["items"]
    assert (event["reason"], event["regarding"]["uid"]) == ("CollectorMissing", cluster.uid)
    admin.delete(f"/api/v1/namespaces/{namespace}/pods")
    assert parts.reporter is not None
    wait(lambda: missing() == 0)
