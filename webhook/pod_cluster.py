"""What a pod's metadata says of itself and of its RayCluster; whatever shape it has."""

from __future__ import annotations

from typing import Any

from webhook.facts import ClusterFacts

CLUSTER_LABEL = "ray.io/cluster"
NODE_TYPE_LABEL = "ray.io/node-type"


def cluster_of(pod: Any, namespace: str) -> ClusterFacts | None:
    """The RayCluster that a pod names: by its owner reference, else by KubeRay's label.

    Without a uid when only the label names it. None when nothing does.
    """
    metadata = _metadata(pod)
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("kind") == "RayCluster":
            group = str(reference.get("apiVersion", "")).partition("/")[0]
            name, uid = reference.get("name"), reference.get("uid")
            if group == "ray.io" and isinstance(name, str) and isinstance(uid, str):
                return ClusterFacts(namespace=namespace, name=name, uid=uid)
    name = _label(metadata, CLUSTER_LABEL)
    return ClusterFacts(namespace=namespace, name=name, uid="") if name else None


def node_type_of(pod: Any) -> str:
    """`head`, `worker`, or what else KubeRay's label says; empty without it."""
    return _label(_metadata(pod), NODE_TYPE_LABEL)


def pod_name(pod: Any) -> str:
    """Its name, or the beginning of it while it has none (`generateName`)."""
    metadata = _metadata(pod)
    name = metadata.get("name") or metadata.get("generateName")
    return name if isinstance(name, str) else ""


def _metadata(pod: Any) -> dict[str, Any]:
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _label(metadata: dict[str, Any], name: str) -> str:
    labels = metadata.get("labels")
    value = labels.get(name) if isinstance(labels, dict) else None
    return value if isinstance(value, str) else ""
