"""Manifests of what users run: RayClusters, RayJobs and RayServices, small enough for two cores."""

from __future__ import annotations

from typing import Any

import yaml

from tests.cluster.images import RAY, RAY_VERSION
from tests.e2e.code import FILES

Manifest = dict[str, Any]
CODE = "ray-code"
CODE_PATH = "/home/ray/code"
RAY_API = "ray.io/v1"


def code(namespace: str) -> Manifest:
    """The ConfigMap with the code that pods run."""
    metadata = {"name": CODE, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": FILES}


def _pod(name: str, *, memory: str) -> Manifest:
    container = {
        "name": name,
        "image": RAY,
        "imagePullPolicy": "Never",
        "env": [{"name": "PYTHONPATH", "value": CODE_PATH}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "512Mi"},
            "limits": {"cpu": "2", "memory": memory},
        },
        "volumeMounts": [{"name": "code", "mountPath": CODE_PATH}],
    }
    volume = {"name": "code", "configMap": {"name": CODE}}
    return {"spec": {"containers": [container], "volumes": [volume]}}


def cluster_spec(
    *, workers: int = 1, head_cpus: int = 1, autoscaled: bool = False, memory: str = "3Gi"
) -> Manifest:
    """Head and workers; with `autoscaled`, workers come and go by need."""
    object_store = str(100 << 20)
    head = {"dashboard-host": "0.0.0.0", "num-cpus": str(head_cpus)}
    worker = {"num-cpus": "1", "resources": '"{\\"worker\\": 1}"'}
    spec: Manifest = {
        "rayVersion": RAY_VERSION,
        "headGroupSpec": {
            "rayStartParams": head | {"object-store-memory": object_store},
            "template": _pod("ray-head", memory=memory),
        },
        "workerGroupSpecs": [
            {
                "groupName": "small",
                "replicas": 0 if autoscaled else workers,
                "minReplicas": 0,
                "maxReplicas": max(workers, 1),
                "rayStartParams": worker | {"object-store-memory": object_store},
                "template": _pod("ray-worker", memory=memory),
            }
        ],
    }
    if autoscaled:
        spec["enableInTreeAutoscaling"] = True
        spec["autoscalerOptions"] = {
            "idleTimeoutSeconds": 5,
            "imagePullPolicy": "Never",
            "resources": {
                "requests": {"cpu": "50m", "memory": "128Mi"},
                "limits": {"cpu": "1", "memory": "512Mi"},
            },
        }
    return spec


def ray_cluster(
    namespace: str, name: str, spec: Manifest, *, annotations: dict[str, str] | None = None
) -> Manifest:
    """A RayCluster."""
    metadata = {"name": name, "namespace": namespace, "annotations": annotations or {}}
    return {"apiVersion": RAY_API, "kind": "RayCluster", "metadata": metadata, "spec": spec}


def ray_job(namespace: str, name: str, *, mode: str, script: str = "job.py") -> Manifest:
    """A RayJob whose cluster is deleted seconds after the job's end."""
    spec: Manifest = {
        "entrypoint": f"python {CODE_PATH}/{script}",
        "submissionMode": mode,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 2,
        "rayClusterSpec": cluster_spec(),
    }
    if mode == "K8sJobMode":
        submitter = {
            "name": "ray-job-submitter",
            "image": RAY,
            "imagePullPolicy": "Never",
            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
        }
        pod = {"containers": [submitter], "restartPolicy": "Never"}
        spec["submitterPodTemplate"] = {"spec": pod}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": RAY_API, "kind": "RayJob", "metadata": metadata, "spec": spec}


def ray_service(namespace: str, name: str) -> Manifest:
    """A RayService with one application."""
    application = {"name": "greeting", "import_path": "greeting:app", "route_prefix": "/"}
    spec = {
        "serveConfigV2": yaml.safe_dump({"applications": [application]}),
        "rayClusterConfig": cluster_spec(workers=0),
    }
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": RAY_API, "kind": "RayService", "metadata": metadata, "spec": spec}
