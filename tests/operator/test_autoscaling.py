"""Ray's autoscaler goes on under the account that the webhook gave its pod."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.client import JSON_PATCH, RefusedError
from tests.operator.platform import Platform
from tests.operator.pods import Space, env, mounts

pytestmark = pytest.mark.kube

REPLICAS = "/spec/workerGroupSpecs/0/replicas"


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_autoscaler_scales_under_its_new_account(
    space: Space, platform: Platform, version: str
) -> None:
    """With a token of that account, by the calls of Ray's autoscaler."""
    name = f"scaled-{version}"
    space.apply(f"autoscaler-{version}")
    head, _ = space.ray_pods("head", "worker")
    account = head.spec["serviceAccountName"]
    assert account == f"ray-historyserver-{name}"
    scaler = platform.server.existing_account(account, namespace=space.name).client
    cluster = space.at("RayCluster", name)
    assert scaler.get(cluster)["spec"]["workerGroupSpecs"][0]["replicas"] == 1
    assert len(scaler.get(space.at("Pod"))["items"]) == 2
    scaler.patch(cluster, [{"op": "replace", "path": REPLICAS, "value": 3}], JSON_PATCH)
    workers = space.pods(3, node_type="worker")
    assert all(pod.is_injected for pod in workers)
    removed = workers[0].name
    strategy = {"path": "/spec/workerGroupSpecs/0/scaleStrategy"}
    scaler.patch(
        cluster,
        [
            {"op": "replace", "path": REPLICAS, "value": 2},
            {"op": "replace", **strategy, "value": {"workersToDelete": [removed]}},
        ],
        JSON_PATCH,
    )
    left = space.pods(2, node_type="worker")
    assert removed not in [pod.name for pod in left]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_autoscaler_container_is_as_kuberay_made_it(space: Space, version: str) -> None:
    """It shares Ray's folder; v2 forbids restarts of the pod, but not of our sidecar."""
    space.apply(f"autoscaler-{version}")
    head, worker = space.ray_pods("head", "worker")
    scaler = head.container("autoscaler")
    assert mounts(scaler)["/tmp/ray"] == mounts(head.ray)["/tmp/ray"]
    assert mounts(head.collector)["/tmp/ray"] == mounts(head.ray)["/tmp/ray"]
    policies = {pod.spec["restartPolicy"] for pod in (head, worker)}
    assert policies == {"Never" if version == "v2" else "Always"}
    assert {pod.collector["restartPolicy"] for pod in (head, worker)} == {"Always"}
    assert env(head.ray).get("RAY_enable_autoscaler_v2") == ("true" if version == "v2" else None)


def test_the_account_may_do_no_more(space: Space, platform: Platform) -> None:
    """What KubeRay gives its autoscaler, in its own namespace; workers of others get nothing."""
    space.apply("autoscaler-v1")
    account = space.ray_pods("head", "worker")[0].spec["serviceAccountName"]

    def may(verb: str, resource: str, *, group: str = "", namespace: str = space.name) -> bool:
        attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource}
        review: dict[str, Any] = {
            "spec": {
                "user": f"system:serviceaccount:{space.name}:{account}",
                "resourceAttributes": attributes,
            }
        }
        at = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(platform.admin.post(at, review)["status"]["allowed"])

    assert may("patch", "rayclusters", group="ray.io")
    assert not may("delete", "rayclusters", group="ray.io")
    assert not may("create", "pods")
    assert not may("get", "secrets")
    assert not may("patch", "rayclusters", group="ray.io", namespace="default")


def test_a_cluster_without_autoscaler_has_an_account_without_rights(
    space: Space, platform: Platform
) -> None:
    """Nothing is bound to it."""
    space.apply("cluster")
    account = space.pods(3)[0].spec["serviceAccountName"]
    client = platform.server.existing_account(account, namespace=space.name).client
    with pytest.raises(RefusedError, match="cannot list resource"):
        client.get(space.at("Pod"))
