"""What the tests make in the cluster."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from tests.cluster.client import Client, RefusedError
from webhook.facts import ClusterFacts

CRD = "rayclusters.ray.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
AUTOSCALER_ROLE = "ray-autoscaler"
AUTOSCALER_RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
]
INJECT = "rayhistory.io/inject"
ACCOUNT = "ray-historyserver-one"

NODE_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


def install_rayclusters(admin: Client) -> None:
    """A RayCluster of any content: only its metadata matters here."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "rayclusters", "singular": "raycluster", "kind": "RayCluster"}
    spec = {
        "group": "ray.io",
        "names": {**names, "listKind": "RayClusterList"},
        "scope": "Namespaced",
        "versions": [version],
    }
    with suppress(RefusedError):  # Another test has left one.
        admin.post(CRDS, {"metadata": {"name": CRD}, "spec": spec})
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        with suppress(RefusedError):
            admin.get("/apis/ray.io/v1/rayclusters")
            return
        time.sleep(0.1)
    raise AssertionError("RayClusters are not served")


def make_cluster(admin: Client, namespace: str, name: str = "one", **meta: Any) -> ClusterFacts:
    """A RayCluster, as its facts."""
    made = admin.post(
        f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters",
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": name, **meta},
            "spec": {"rayVersion": "2.55.1"},
        },
    )
    return ClusterFacts(namespace=namespace, name=name, uid=made["metadata"]["uid"])


def make_pod(admin: Client, namespace: str, *, account: str = "", cluster: str = "one") -> None:
    """A Ray pod without a collector."""
    spec: dict[str, Any] = {"containers": [{"name": "ray-worker", "image": "ray"}]}
    if account:
        spec["serviceAccountName"] = account
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": "worker"}
    admin.post(
        f"/api/v1/namespaces/{namespace}/pods",
        {"metadata": {"generateName": "p-", "labels": labels}, "spec": spec},
    )


def make_node(admin: Client, name: str, kubelet: str, *, unschedulable: bool = False) -> None:
    """A node that registered itself."""
    admin.post(
        "/api/v1/nodes",
        {
            "metadata": {"name": name},
            "spec": {"unschedulable": unschedulable},
            "status": {"nodeInfo": dict.fromkeys(NODE_INFO, "x") | {"kubeletVersion": kubelet}},
        },
    )
