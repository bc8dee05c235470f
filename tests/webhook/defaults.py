"""What the API server does to a pod between two passes of a webhook: it fills defaults in.

`k8s.io/apiserver/pkg/admission/plugin/webhook/mutating` applies them after every patch.
"""

from __future__ import annotations

import copy
from typing import Any


def defaulted(pod: dict[str, Any]) -> dict[str, Any]:
    """A copy with the defaults that Kubernetes gives containers and volumes."""
    pod = copy.deepcopy(pod)
    spec = pod["spec"]
    for container in [*spec["containers"], *(spec.get("initContainers") or [])]:
        container.setdefault("imagePullPolicy", "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("resources", {})
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")
        for variable in container.get("env") or []:
            reference = (variable.get("valueFrom") or {}).get("fieldRef")
            if reference is not None:
                reference.setdefault("apiVersion", "v1")
            if variable.get("value") == "":
                del variable["value"]
    for volume in spec.get("volumes") or []:
        for kind in ("secret", "configMap", "projected"):
            if kind in volume:
                volume[kind].setdefault("defaultMode", 420)
    return pod
