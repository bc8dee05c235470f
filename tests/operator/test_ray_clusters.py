"""What the collector of a RayCluster's pods is: container, variables, volumes, account."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from tests.harness.waiting import eventually
from tests.operator.platform import Platform
from tests.operator.pods import COLLECTOR, Pod, Space, env, mounts
from tests.operator.release import Release

pytestmark = pytest.mark.kube

HELD_S = 0.5
"""So long Kubernetes is late in collecting what a deleted cluster owned."""


def test_the_collector_is_the_last_native_sidecar(space: Space) -> None:
    """After KubeRay's wait for the GCS; Ray stays the first container, and is told to report."""
    space.apply("cluster")
    head, worker = space.pods(1, node_type="head")[0], space.pods(2, node_type="worker")[0]
    assert head.container_names == [COLLECTOR, "ray-head"]
    assert worker.container_names == ["wait-gcs-ready", COLLECTOR, "ray-worker"]
    for pod in (head, worker):
        assert pod.collector["restartPolicy"] == "Always"
        sink = env(pod.ray)["RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR"]
        assert sink == "http://localhost:8084/v1/events"
        assert pod.ray["lifecycle"]["postStart"]["exec"]["command"][:2] == ["/bin/sh", "-c"]
        assert pod.spec["terminationGracePeriodSeconds"] == 120
        assert mounts(pod.ray)["/tmp/ray"] == mounts(pod.collector)["/tmp/ray"] == "ray-logs"
        assert pod.status["mode"] == "native"


def test_the_collector_knows_its_place(space: Space, release: Release) -> None:
    """Role, head's address, storage as the chart's values say; a RayCluster alone has no owner."""
    space.apply("cluster")
    head, worker = space.pods(1, node_type="head")[0], space.pods(2, node_type="worker")[0]
    wanted = yaml.safe_load(release.settings()["webhook.yaml"])["collector"]
    storage = {each["name"]: each["value"] for each in wanted["env"]}
    assert storage == {"STORAGE_BACKEND": "local", "STORAGE_LOCAL_DIR": "/ray-history"}
    for pod, role in ((head, "Head"), (worker, "Worker")):
        told = env(pod.collector)
        assert told["RAY_ROLE"] == role
        assert storage.items() <= told.items()
        assert "OWNER_KIND" not in told
        assert pod.collector["image"] == wanted["image"]
        claim = pod.volume("ray-history-storage")["persistentVolumeClaim"]["claimName"]
        assert (claim, mounts(pod.collector)["/ray-history"]) == (
            "ray-history",
            "ray-history-storage",
        )
    address = f"plain-head-svc.{space.name}.svc.cluster.local"
    assert env(worker.collector)["FQ_RAY_IP"] == env(worker.ray)["FQ_RAY_IP"] == address


def test_the_account_of_a_cluster_goes_with_it(space: Space) -> None:
    """Made before the first pod, owned by the RayCluster, collected by Kubernetes."""
    (cluster,) = space.apply("cluster")
    accounts = {pod.spec["serviceAccountName"] for pod in space.pods(3)}
    assert accounts == {"ray-historyserver-plain"}
    account = space.get("ServiceAccount", "ray-historyserver-plain")
    (owner,) = account["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("RayCluster", cluster["metadata"]["uid"])
    assert not space.exists("RoleBinding", "ray-historyserver-plain")
    space.admin.delete(space.at("RayCluster", "plain"))
    space.pods(0)
    eventually(
        "the account is collected",
        lambda: not space.exists("ServiceAccount", "ray-historyserver-plain"),
    )


def test_a_cluster_made_anew_under_its_name(space: Space, platform: Platform) -> None:
    """Its account goes with the old one, moments later: no pod is made under that."""
    space.apply("cluster")
    space.pods(3)
    with platform.controllers.held():
        space.admin.delete(space.at("RayCluster", "plain"))
        space.admin.delete(space.at("Pod"))  # While there are old ones, no new ones are made.
        (cluster,) = space.apply("cluster")
        time.sleep(HELD_S)
    uid = cluster["metadata"]["uid"]
    assert all(pod.is_injected for pod in space.pods_of(uid, 3))
    account = space.get("ServiceAccount", "ray-historyserver-plain")
    assert [one["uid"] for one in account["metadata"]["ownerReferences"]] == [uid]


def test_a_cluster_is_suspended_and_resumed(space: Space) -> None:
    """No pod holds it back, and the new ones are as the old."""
    space.apply("cluster")
    before = {pod.name for pod in space.pods(3)}
    _make_ready(space)
    space.admin.patch(space.at("RayCluster", "plain"), {"spec": {"suspend": True}})
    space.pods(0)
    eventually("suspended", lambda: _state(space) == "suspended")
    space.admin.patch(space.at("RayCluster", "plain"), {"spec": {"suspend": False}})
    after = space.pods(3)
    assert before.isdisjoint(pod.name for pod in after)
    assert all(pod.is_injected for pod in after)


def test_a_lost_pod_comes_back_with_a_collector(space: Space) -> None:
    """The operator makes it anew."""
    space.apply("cluster")
    lost = space.pods(2, node_type="worker")[0]
    _make_ready(space)
    space.admin.delete(space.at("Pod", lost.name))

    def others() -> list[Pod]:
        return [pod for pod in space.pods(2, node_type="worker") if pod.name != lost.name]

    eventually("a new worker", lambda: len(others()) == 2)
    assert all(pod.is_injected for pod in others())


def test_a_ready_cluster_is_ready(space: Space) -> None:
    """With a sidecar in every pod KubeRay finds its containers, and deletes none."""
    space.apply("cluster")
    before = {pod.name for pod in space.pods(3)}
    _make_ready(space)
    space.admin.patch(space.at("RayCluster", "plain"), {"metadata": {"labels": {"again": "1"}}})
    assert {pod.name for pod in space.pods(3)} == before


def test_many_clusters_at_once(space: Space) -> None:
    """Every pod has its collector, every cluster its own account, made once."""
    names = [f"c{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        for made in [pool.submit(space.apply, "cluster", name=name) for name in names]:
            made.result()
    pods = space.pods(3 * len(names))
    assert all(pod.is_injected for pod in pods)
    accounts = {pod.labels["ray.io/cluster"]: pod.spec["serviceAccountName"] for pod in pods}
    assert accounts == {name: f"ray-historyserver-{name}" for name in names}


def test_the_owner_is_told_once(space: Space) -> None:
    """An Event on the RayCluster says why there is a collector."""
    space.apply("cluster")
    space.pods(3)

    def told() -> list[str]:
        return [
            event["note"]
            for event in space.all("Event")
            if event["reason"] == "NamespaceLabel" and event["regarding"]["kind"] == "RayCluster"
        ]

    eventually("an Event", told)
    assert told() == ["a collector is added, as the namespace's label asks"]


def _make_ready(space: Space) -> None:
    """The operator may not have seen its pods yet; those that go before, it waits for."""
    space.run_pods()
    eventually("ready", lambda: _state(space) == "ready")


def _state(space: Space) -> str:
    return str(space.get("RayCluster", "plain").get("status", {}).get("state", ""))
