"""Who gets a collector: namespaces, RayClusters and pods say so, on the way through KubeRay."""

from __future__ import annotations

import pytest

from tests.harness.waiting import eventually
from tests.operator.platform import Platform
from tests.operator.pods import CLAIM, Space, new_space
from tests.operator.release import LABEL

pytestmark = pytest.mark.kube

ACK = "ray.alibabacloud.com/enable-historyserver"


def test_all_pods_of_a_labelled_namespace(space: Space) -> None:
    """Head and workers, without a word in the manifest."""
    space.apply("cluster")
    pods = space.pods(3)
    assert [pod.is_injected for pod in pods] == [True] * 3
    assert sorted(pod.node_type for pod in pods) == ["head", "worker", "worker"]


def test_an_annotated_cluster_in_a_namespace_without_label(unlabelled: Space) -> None:
    """As Container Service for Kubernetes documents it; a neighbour is left alone."""
    unlabelled.apply("cluster", name="kept", annotations={ACK: "true"})
    unlabelled.apply("cluster", name="other")
    pods = unlabelled.pods(6)
    injected = {pod.labels["ray.io/cluster"]: pod.is_injected for pod in pods}
    assert injected == {"kept": True, "other": False}
    assert len([pod for pod in pods if pod.is_injected]) == 3


@pytest.mark.parametrize("name", [ACK, LABEL])
def test_a_cluster_says_no(space: Space, name: str) -> None:
    """Its annotation is stronger than the namespace's label."""
    space.apply("cluster", annotations={name: "false"})
    assert not any(pod.is_injected for pod in space.pods(3))


def test_a_namespace_without_the_storages_claim(space: Space) -> None:
    """Its pods would never start; the owner is told, and later clusters keep their history."""
    space.admin.delete(space.at("PersistentVolumeClaim", CLAIM))
    space.apply("cluster", name="early")
    assert not any(pod.is_injected for pod in space.pods(3))

    def told() -> list[str]:
        return [each["note"] for each in space.all("Event") if each["reason"] == "ClaimMissing"]

    assert CLAIM in eventually("an Event", told)[0]
    space.make_claim()
    space.apply("cluster", name="late")
    assert all(pod.is_injected for pod in space.pods(3, cluster="late"))


def test_one_group_says_no(space: Space) -> None:
    """A pod template's annotation is the strongest."""
    (cluster,) = space.apply("cluster-of-groups")
    del cluster
    injected = {pod.labels["ray.io/group"]: pod.is_injected for pod in space.pods(4)}
    assert injected == {
        "headgroup": True,
        "taken": True,
        "left-by-annotation": False,
        "left-by-label": False,
    }


def test_a_disabled_namespace_wins_over_a_cluster(platform: Platform, release: object) -> None:
    """An administrator's word: nothing in it can ask for a history."""
    del release
    space = new_space(platform, value="disabled")
    space.apply("cluster", annotations={ACK: "true"})
    assert not any(pod.is_injected for pod in space.pods(3))
