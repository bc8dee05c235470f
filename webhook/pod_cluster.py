"""What a pod's metadata says of itself and of its RayCluster; whatever shape it has."""

from __future__ import annotations

from typing import Any

from webhook.facts import ClusterFacts
from webhook.pod_parts import CLUSTER, NODE_TYPE, Part, items, part, text


def cluster_of(pod: Any, namespace: str) -> ClusterFacts | None:
    """The RayCluster that a pod names: by its owner reference, else by KubeRay's label.

    Without a uid when only the label names it. None when nothing does.
    """
    metadata = _metadata(pod)
    for reference in items(metadata, "ownerReferences"):
        if isinstance(reference, dict) and reference.get("kind") == "RayCluster":
            name, uid = text(reference, "name"), text(reference, "uid")
            if text(reference, "apiVersion").startswith("ray.io/") and name and uid:
                return ClusterFacts(namespace=namespace, name=name, uid=uid)
    name = text(part(metadata, "labels"), CLUSTER)
    return ClusterFacts(namespace=namespace, name=name, uid="") if name else None


def node_type_of(pod: Any) -> str:
    """`head`, `worker`, or what else KubeRay's label says; empty without it."""
    return text(part(_metadata(pod), "labels"), NODE_TYPE)


def pod_name(pod: Any) -> str:
    """Its name, or the beginning of it while it has none (`generateName`)."""
    metadata = _metadata(pod)
    return text(metadata, "name") or text(metadata, "generateName")


def _metadata(pod: Any) -> Part:
    return part(pod, "metadata") if isinstance(pod, dict) else {}
