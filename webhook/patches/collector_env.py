"""What the collector is told: who it is, where Ray is, where to listen; then its storage."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from webhook.facts import ClusterFacts
from webhook.patches.temp_dir import DEFAULT
from webhook.pod_parts import CLUSTER, NODE_TYPE, Part, items, named, part, start_options, text
from webhook.settings import EnvVar

DASHBOARD_PORT = 8265
_SERVICE_LIMIT = 50
"""KubeRay shortens the names of services that would be longer."""
_DASHBOARD_OPTION = re.compile(r"--dashboard-port(?:=|\s+)[\"']?(\d{1,5})\b")
_OWN_ADDRESS = {"fieldRef": {"fieldPath": "status.podIP"}}


def identity_env(pod: Part, *, cluster: ClusterFacts) -> list[dict[str, Any]]:
    """Role, RayCluster and its owner; names of KubeRay's own collector.

    Cluster and namespace come from the pod itself when it runs, so that a manifest that was
    patched before its cluster has a name is right, too.
    """
    is_head = text(part(part(pod, "metadata"), "labels"), NODE_TYPE) == "head"
    env: list[dict[str, Any]] = [
        {"name": "RAY_ROLE", "value": "Head" if is_head else "Worker"},
        _from_field("RAY_CLUSTER_NAME", f"metadata.labels['{CLUSTER}']"),
        _from_field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
        _from_field("POD_IP", "status.podIP"),
    ]
    if cluster.owner_kind and cluster.owner_name:
        env.append({"name": "OWNER_KIND", "value": cluster.owner_kind})
        env.append({"name": "OWNER_NAME", "value": cluster.owner_name})
    return env


def ray_env(pod: Part, ray: Part, *, cluster: ClusterFacts, root: str) -> list[dict[str, Any]]:
    """Where Ray's files and its dashboard are, where not at Ray's defaults."""
    env: list[dict[str, Any]] = []
    if root != DEFAULT:
        env.append({"name": "RAY_TMP_ROOT", "value": root})
    if text(part(part(pod, "metadata"), "labels"), NODE_TYPE) == "head":
        options = start_options(ray, _DASHBOARD_OPTION)
        if options and int(options[-1][1]) != DASHBOARD_PORT:
            address = f"http://localhost:{int(options[-1][1])}"
            env.append({"name": "RAY_DASHBOARD_ADDRESS", "value": address})
        return env
    head = named(items(ray, "env"), "FQ_RAY_IP")
    service = f"{cluster.name}-head-svc"
    if head is not None:
        env.append(dict(head))
    elif cluster.name and len(service) <= _SERVICE_LIMIT:
        address = f"{service}.{cluster.namespace}.svc" if cluster.namespace else service
        env.append({"name": "FQ_RAY_IP", "value": address})
    return env


def listening_env(*, events_port: int, metrics_port: int) -> list[dict[str, Any]]:
    """Events from the pod alone; metrics at the pod's address, for a scraper.

    `events_port` 0 takes none. `metrics_port` 0 is for the node's network: any port, not
    reachable from outside, since the node's ports are shared.
    """
    env: list[dict[str, Any]] = []
    if events_port:
        env.append({"name": "EVENTS_PORT", "value": str(events_port)})
    else:
        env.append({"name": "ENABLE_EVENT_COLLECTOR", "value": "false"})
    if metrics_port:
        env.append({"name": "METRICS_ADDRESS", "valueFrom": _OWN_ADDRESS})
    env.append({"name": "METRICS_PORT", "value": str(metrics_port)})
    return env


def merged_env(own: Iterable[dict[str, Any]], settings: Iterable[EnvVar]) -> list[dict[str, Any]]:
    """Ours, then the settings': a name stands once, and who the collector is cannot be set."""
    env = {variable["name"]: variable for variable in own}
    for variable in settings:
        if variable.name in _KEPT and variable.name in env:
            continue
        if variable.value_from is not None:
            env[variable.name] = {"name": variable.name, "valueFrom": variable.value_from}
        else:
            env[variable.name] = {"name": variable.name, "value": variable.value}
    return list(env.values())


_KEPT = frozenset(
    {
        "RAY_ROLE",
        "RAY_CLUSTER_NAME",
        "RAY_CLUSTER_NAMESPACE",
        "POD_IP",
        "OWNER_KIND",
        "OWNER_NAME",
        "EVENTS_PORT",
        "METRICS_PORT",
        "RAY_TMP_ROOT",
    }
)


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
