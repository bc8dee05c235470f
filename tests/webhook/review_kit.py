"""Reviews as an API server sends them, for pods as KubeRay makes them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from webhook.reviews import API_VERSION

ROOT = Path(__file__).parents[2]
SERVER_NAME = "ray-history-webhook.ray-history.svc"
NAMESPACE = "ml"
CLUSTER = "nightly"
CLUSTER_UID = "0b8a5a5e-52f1-4d8e-a6fd-1d4cbbd0a7a1"
REVIEW_UID = "705ab4f5-6393-11e8-b7cc-42010a800002"

_RAY_ENV = [
    "RAY_CLUSTER_NAMESPACE",
    "RAY_CLOUD_INSTANCE_ID",
    "RAY_NODE_TYPE_NAME",
    "RAY_PORT",
    "RAY_ADDRESS",
    "RAY_USAGE_STATS_KUBERAY_IN_USE",
    "RAY_USAGE_STATS_EXTRA_TAGS",
    "FQ_RAY_IP",
    "RAY_CLUSTER_NAME",
    "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE",
    "KUBERAY_GEN_RAY_START_CMD",
]


def pod(**changes: Any) -> dict[str, Any]:
    """A worker pod as the operator 1.6 makes it; `changes` replace parts of its spec."""
    ray = {
        "name": "ray-worker",
        "image": "rayproject/ray:2.55.1",
        "command": ["/bin/bash", "-c", "--"],
        "args": ["ulimit -n 65536; ray start --address=nightly-head-svc.ml.svc:6379 --block "],
        "env": [{"name": name, "value": f"value of {name} " * 3} for name in _RAY_ENV],
        "resources": {"limits": {"cpu": "8", "memory": "32Gi"}, "requests": {"cpu": "8"}},
        "livenessProbe": _probe(),
        "readinessProbe": _probe(),
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [
            {"name": "shared-mem", "mountPath": "/dev/shm"},
            {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
    }
    wait = {**ray, "name": "wait-gcs-ready", "args": ["until ray health-check; do sleep 5; done"]}
    spec = {
        "initContainers": [wait],
        "containers": [ray],
        "restartPolicy": "Always",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "terminationGracePeriodSeconds": 30,
        "volumes": [
            {"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            {"name": "token", "projected": {"sources": [], "defaultMode": 420}},
        ],
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        **changes,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(), "spec": spec}


def review(
    made: Any, *, uid: str = REVIEW_UID, operation: str = "CREATE", **changes: Any
) -> dict[str, Any]:
    """A review of a pod; `changes` replace parts of its request."""
    request = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": NAMESPACE,
        "operation": operation,
        "userInfo": {"username": "system:serviceaccount:ray-system:kuberay-operator"},
        "object": made,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **changes,
    }
    return {"kind": "AdmissionReview", "apiVersion": API_VERSION, "request": request}


def body(document: Any) -> bytes:
    """As bytes."""
    return json.dumps(document).encode()


def operations(answer: bytes) -> list[dict[str, Any]]:
    """The patch of an answer; empty without one."""
    patch = json.loads(answer)["response"].get("patch")
    decoded: list[dict[str, Any]] = json.loads(base64.b64decode(patch)) if patch else []
    return decoded


def _metadata() -> dict[str, Any]:
    return {
        "generateName": "nightly-gpu-worker-",
        "namespace": NAMESPACE,
        "labels": {
            "ray.io/cluster": CLUSTER,
            "ray.io/node-type": "worker",
            "ray.io/group": "gpu",
            "ray.io/is-ray-node": "yes",
            "ray.io/identifier": "nightly-worker",
            "app.kubernetes.io/name": "kuberay",
        },
        "annotations": {"ray.io/ft-enabled": "false"},
        "ownerReferences": [
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "name": CLUSTER,
                "uid": CLUSTER_UID,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [
            {
                "manager": "kuberay-operator",
                "operation": "Update",
                "fieldsV1": {f"f:{name}": {".": {}, "f:value": {}} for name in _RAY_ENV},
            }
        ],
    }


def _probe() -> dict[str, Any]:
    command = "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz"
    return {
        "exec": {"command": ["bash", "-c", f"{command} | grep success"]},
        "initialDelaySeconds": 30,
        "timeoutSeconds": 2,
        "periodSeconds": 5,
        "failureThreshold": 120,
    }
