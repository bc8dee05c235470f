"""Reads the parts of a pod, which is plain JSON of any shape: no part is taken for granted.

A pod never goes through a typed model: fields that this code does not know must survive, and
`restartPolicy` of init containers is one that old models drop
(aws/amazon-eks-pod-identity-webhook#208).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Part = Mapping[str, Any]

NODE_TYPE = "ray.io/node-type"
CLUSTER = "ray.io/cluster"
START_COMMAND = "KUBERAY_GEN_RAY_START_CMD"
"""KubeRay's record of the `ray start` that it made; easier to read than the container's shell."""

_EMPTY: Part = {}


def part(parent: Part, name: str) -> Part:
    """A mapping inside another; empty when it is missing or null."""
    value = parent.get(name)
    return value if isinstance(value, dict) else _EMPTY


def items(parent: Part, name: str) -> Sequence[Part]:
    """A list of mappings inside a mapping; empty when it is missing or null."""
    value = parent.get(name)
    return value if isinstance(value, list) else ()


def text(parent: Part, name: str) -> str:
    """A string inside a mapping; empty when it is missing."""
    value = parent.get(name)
    return value if isinstance(value, str) else ""


def named(entries: Sequence[Part], name: str) -> Part | None:
    """The entry of this name."""
    for entry in entries:
        if entry.get("name") == name:
            return entry
    return None


def ray_container(pod: Part) -> Part:
    """The container that runs Ray: the first, whatever its name (ray-project/kuberay#1379)."""
    containers = items(part(pod, "spec"), "containers")
    return containers[0] if containers else _EMPTY


def all_containers(pod: Part) -> Iterator[Part]:
    """Containers, then init containers."""
    spec = part(pod, "spec")
    yield from items(spec, "containers")
    yield from items(spec, "initContainers")


def env_value(container: Part, name: str) -> str | None:
    """The literal value of a variable; None when it is not set or comes from elsewhere."""
    variable = named(items(container, "env"), name)
    if variable is None or "valueFrom" in variable:
        return None
    return text(variable, "value")


def argv_of(container: Part) -> list[str]:
    """Command and arguments, as far as they are strings."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [word for word in words if isinstance(word, str)]


def start_options(ray: Part, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    """Where a pattern matches in the `ray start` of the Ray container.

    KubeRay's record first; a user's own command (`ray.io/overwrite-container-cmd`) counts too.
    """
    command = env_value(ray, START_COMMAND)
    texts = argv_of(ray) if command is None else [command, *argv_of(ray)]
    return [match for line in texts for match in pattern.finditer(line)]


def is_well_formed(pod: Part) -> bool:
    """Whether every part that is read or changed here has its proper shape, or is missing."""
    metadata, spec = pod.get("metadata"), pod.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        return False
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers:
        return False
    records = [spec.get(name) for name in ("initContainers", "volumes", "imagePullSecrets")]
    maps = [metadata.get("annotations"), spec.get("securityContext"), spec.get("nodeSelector")]
    words: list[Any] = []
    for container in (*containers, *(records[0] if isinstance(records[0], list) else ())):
        if not isinstance(container, dict) or not isinstance(container.get("name"), str):
            return False
        records += [container.get(name) for name in ("env", "volumeMounts", "ports")]
        words += [container.get("command"), container.get("args")]
        maps += [container.get(name) for name in ("lifecycle", "securityContext", "resources")]
    return (
        all(value is None or isinstance(value, dict) for value in maps)
        and all(_is_list_of(dict, value) for value in records)
        and all(_is_list_of(str, value) for value in words)
    )


def _is_list_of(kind: type, value: Any) -> bool:
    """None, or a list with entries of this kind only."""
    if value is None:
        return True
    return isinstance(value, list) and all(isinstance(entry, kind) for entry in value)
