"""The last look at a patched pod: what must hold whatever the rules above did.

A pod that fails is admitted as it came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from webhook.pod_parts import Part, all_containers, items, part, ray_container

_ALLOWED = re.compile(
    r"/metadata/annotations(/rayhistory\.io~1status)?"
    r"|/spec/containers/0/(env|volumeMounts|lifecycle)(/.*)?"
    r"|/spec/containers/\d+/env(/-)?"
    r"|/spec/(containers/-|initContainers(/-)?)"
    r"|/spec/volumes(/-)?"
    r"|/spec/imagePullSecrets(/-)?"
    r"|/spec/resources/(requests|limits)/(cpu|memory)"
    r"|/spec/(serviceAccountName|serviceAccount|terminationGracePeriodSeconds)"
)
_OURS_ONLY = re.compile(r"/spec/(initContainers|containers)/(\d+)/.*")


def faults(before: Part, after: Part, *, operations: Sequence[Part], ours: str) -> list[str]:
    """What is wrong with the patch; nothing in all known cases. `ours` is our container's name."""
    return [
        *_changed_ray(before, after),
        *_twice(after),
        *_mounts_without_volume(before, after),
        *_foreign_paths(before, operations, ours=ours),
    ]


def _changed_ray(before: Part, after: Part) -> Iterator[str]:
    old, new = ray_container(before), ray_container(after)
    if new is old:
        return
    for name in old.keys() | new.keys():
        if name not in ("env", "volumeMounts", "lifecycle") and new.get(name) != old.get(name):
            yield f"{name} of the first container changed"


def _twice(pod: Part) -> Iterator[str]:
    names = [container.get("name") for container in all_containers(pod)]
    volumes = [volume.get("name") for volume in items(part(pod, "spec"), "volumes")]
    if len(set(names)) != len(names) or len(set(volumes)) != len(volumes):
        yield "two containers or two volumes have the same name"


def _mounts_without_volume(before: Part, after: Part) -> Iterator[str]:
    volumes = {volume.get("name") for volume in items(part(after, "spec"), "volumes")}
    untouched = {id(container) for container in all_containers(before)}
    for container in all_containers(after):
        if id(container) in untouched:
            continue
        paths: set[Any] = set()
        for mount in items(container, "volumeMounts"):
            if mount.get("name") not in volumes:
                yield f"container {container.get('name')} mounts a volume that is not there"
            if mount.get("mountPath") in paths:
                yield f"container {container.get('name')} has two mounts on one path"
            paths.add(mount.get("mountPath"))


def _foreign_paths(before: Part, operations: Sequence[Part], *, ours: str) -> Iterator[str]:
    for operation in operations:
        path = operation["path"]
        if _ALLOWED.fullmatch(path) or _is_in_our_container(before, path, ours):
            continue
        yield f"{path} is not ours to change"


def _is_in_our_container(before: Part, path: str, ours: str) -> bool:
    match = _OURS_ONLY.fullmatch(path)
    if match is None:
        return False
    return bool(items(part(before, "spec"), match[1])[int(match[2])].get("name") == ours)
