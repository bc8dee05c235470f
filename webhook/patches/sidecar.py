"""The collector's container.

No probes and no hooks, on purpose. A start-up probe would keep Ray waiting for a collector that
cannot start, while Ray itself keeps 100,000 events for one that is late. A readiness probe
counts for the whole pod. A liveness probe over the network is what a service mesh breaks. And a
`preStop` hook of a native sidecar runs at once (linkerd/linkerd2#11465); the collector itself
waits for Ray's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webhook.pod_parts import Part, items
from webhook.settings import Collector

NATIVE = "native"
CLASSIC = "classic"


def container(
    settings: Collector,
    *,
    name: str,
    mode: str,
    env: Sequence[Part],
    mounts: Sequence[Part],
    metrics_port: int,
    resources: Part,
    security_context: Part,
) -> dict[str, Any]:
    """Our container. `metrics_port` 0 declares no port, as on the node's network (it would
    become a `hostPort`, and two Ray pods could not share a node).
    """
    found: dict[str, Any] = {
        "name": name,
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
    }
    if mode == NATIVE:
        found["restartPolicy"] = "Always"
    if settings.args:
        found["args"] = list(settings.args)
    found["env"] = list(env)
    if metrics_port:
        port = {"name": "rayhs-metrics", "containerPort": metrics_port, "protocol": "TCP"}
        found["ports"] = [port]
    found["resources"] = resources
    found["securityContext"] = security_context
    found["terminationMessagePolicy"] = "FallbackToLogsOnError"
    found["volumeMounts"] = list(mounts)
    return found


def completed(present: Part, wanted: Part) -> Part:
    """Our container as an earlier pass left it, with what somebody took away put back.

    Another webhook may have added variables and mounts, as those for cloud identities do, and
    the API server has filled defaults in: nothing of that is touched. Webhooks built on old
    Kubernetes types drop `restartPolicy` of init containers, and the pod would wait for ever
    (aws/amazon-eks-pod-identity-webhook#208).
    """
    missing = {
        name: value
        for name, value in wanted.items()
        if name not in present and name in ("restartPolicy", "securityContext", "resources")
    }
    for field, key in (("env", "name"), ("volumeMounts", "mountPath")):
        known = {entry.get(key) for entry in items(present, field)}
        absent = [entry for entry in items(wanted, field) if entry[key] not in known]
        if absent:
            missing[field] = [*items(present, field), *absent]
    return {**present, **missing} if missing else present


def classic_name(name: str, *, ray_name: str) -> str:
    """A name that sorts after the Ray container's.

    The kubelet sorts container statuses by name, and Ray's autoscaler takes the first for Ray's.
    """
    while name <= ray_name and len(name) < 63:
        name = f"z{name}"
    return name
