"""Other rules of a cluster, on pods with a collector: Pod Security, quota, limits, dry runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.client import RefusedError
from tests.harness.waiting import eventually
from tests.operator.platform import Platform
from tests.operator.pods import Pod, Space, new_space
from tests.operator.release import LABEL, Release

pytestmark = pytest.mark.kube

APPLY = "application/apply-patch+yaml"


def ray_pod(cluster: str) -> dict[str, Any]:
    """A worker's pod that asks for a collector, for a call of our own."""
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": "worker"}
    metadata = {"generateName": f"{cluster}-", "labels": labels, "annotations": {LABEL: "true"}}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.55.1"}]},
    }


def test_restricted_pod_security_admits_the_pods(platform: Platform, release: Release) -> None:
    """What the user wrote is kept; the collector adds nothing that is forbidden."""
    del release
    space = new_space(platform, security="restricted")
    with pytest.raises(RefusedError, match="violates PodSecurity"):
        space.make(ray_pod("careless"))
    space.apply("restricted")
    (head,) = space.ray_pods("head")
    assert head.is_injected
    assert head.collector["securityContext"]["readOnlyRootFilesystem"]


def test_a_quota_counts_the_collector(space: Space) -> None:
    """It has requests and limits, without which a quota refuses a pod."""
    hard = {
        "requests.cpu": "4",
        "requests.memory": "8Gi",
        "limits.cpu": "8",
        "limits.memory": "9Gi",
    }
    space.make({"kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": hard}})
    eventually(
        "the quota counts", lambda: space.get("ResourceQuota", "small")["status"].get("used")
    )
    space.apply("restricted")
    (head,) = space.ray_pods("head")
    assert head.is_injected

    def used() -> dict[str, str]:
        found: dict[str, str] = space.get("ResourceQuota", "small")["status"]["used"]
        return found

    eventually("the head is counted", lambda: used()["requests.cpu"] != "0")
    assert used()["requests.cpu"] == "550m"
    assert used()["limits.memory"] == "2304Mi"


def test_pods_with_resources_as_a_whole(space: Space) -> None:
    """The collector's come on top: no pod is refused, and each keeps its class."""
    space.apply("pod-resources")
    pods = {pod.labels["ray.io/group"]: pod for pod in space.pods(3)}
    assert all(pod.is_injected for pod in pods.values())
    limits = {group: pod.spec["resources"]["limits"] for group, pod in pods.items()}
    assert limits == {
        "headgroup": {"cpu": "1500m", "memory": "2304Mi"},
        "burstable": {"cpu": "900m", "memory": "1792Mi"},
        "memory-only": {"memory": "1280Mi"},
    }
    classes = {group: pod.object["status"]["qosClass"] for group, pod in pods.items()}
    assert classes["headgroup"] == "Guaranteed"
    assert classes["burstable"] == classes["memory-only"] == "Burstable"


def test_the_least_of_a_limit_range_is_met_by_annotation(space: Space) -> None:
    """Where containers must be larger than the chart's collector, the RayCluster says so."""
    least = {"type": "Container", "min": {"cpu": "200m"}, "max": {"memory": "4Gi", "cpu": "2"}}
    space.make({"kind": "LimitRange", "metadata": {"name": "r"}, "spec": {"limits": [least]}})
    space.apply("restricted", annotations={"rayhistory.io/cpu-request": "200m"})
    (head,) = space.ray_pods("head")
    assert head.collector["resources"]["requests"]["cpu"] == "200m"
    assert head.ray["resources"]["requests"]["cpu"] == "500m"


def test_a_dry_run_makes_nothing(unlabelled: Space) -> None:
    """The answer shows the collector; there is no account, no pod and no Event afterwards."""
    space, account = unlabelled, "ray-historyserver-plain"
    space.apply("cluster")
    space.pods(3)
    answer = Pod(space.admin.post(f"{space.at('Pod')}?dryRun=All", ray_pod("plain")))
    assert answer.is_injected
    assert answer.spec["serviceAccountName"] == "default"
    assert not space.exists("ServiceAccount", account)
    assert len(space.all("Pod")) == 3
    wet = Pod(space.make(ray_pod("plain")))  # The same, in earnest: what there is to be seen.
    assert wet.spec["serviceAccountName"] == account
    eventually("an Event", lambda: _notes(space))
    assert _notes(space) == [("PodAnnotation", wet.labels["ray.io/cluster"])]


def _notes(space: Space) -> list[tuple[str, str]]:
    return [
        (event["reason"], event["regarding"]["name"])
        for event in space.all("Event")
        if event.get("reportingController") == "rayhistory.io/webhook"
    ]


def test_clusters_applied_by_gitops_stay_in_sync(space: Space) -> None:
    """Nothing is written to the user's objects: applied again, nothing changes or is contested."""
    body = space.manifest("cluster")
    path = f"{space.at('RayCluster', 'plain')}?fieldManager=gitops"
    made = space.admin.patch(path, body, APPLY)
    before = {pod.name for pod in space.pods(3)}
    again = space.admin.patch(path, body, APPLY)
    assert again["metadata"]["generation"] == made["metadata"]["generation"]
    managers = {
        field["manager"]
        for field in again["metadata"]["managedFields"]
        if field.get("subresource") != "status"
    }
    assert managers == {"gitops"}
    assert {pod.name for pod in space.pods(3)} == before


def test_the_api_server_has_nothing_to_complain_of(space: Space, platform: Platform) -> None:
    """Such as an audit annotation that is given twice for one pod."""
    (log,) = (path for path in platform.process_logs() if path.name == "kube-apiserver.log")
    read = len(log.read_text())
    space.apply("cluster")
    assert all(pod.is_injected for pod in space.pods(3))
    told = log.read_text()[read:].splitlines()
    assert [line for line in told if "inject.rayhistory.io" in line] == []
