"""How the collector gets to see Ray's temporary root.

The volume that Ray already has there is shared as it is; only where there is none, an emptyDir
is added. The collector keeps its own waiting data in the root, too, but only in a volume that
no other pod can have: there may be one collector per data folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webhook.pod_parts import Part, items, named, text

NAME = "ray-logs"
"""KubeRay's name for the volume on Ray's root: its autoscaler finds it by that."""
OTHER_NAME = "rayhs-tmp"
DATA_NAME = "rayhs-data"
DATA_PATH = "/var/lib/ray-history"

_REFERENCE = re.compile(r"\$\((\w+)\)")
_PER_POD = ("emptyDir", "ephemeral")


@dataclass(frozen=True, slots=True)
class SharedRoot:
    """Mounts and volumes that share Ray's root with the collector."""

    mounts: tuple[dict[str, Any], ...]
    """Of the collector."""
    env: tuple[dict[str, Any], ...] = ()
    """Of the collector."""
    ray_mount: dict[str, Any] | None = None
    """To be added to the Ray container."""
    volumes: tuple[dict[str, Any], ...] = ()
    """To be added to the pod."""
    warnings: tuple[str, ...] = ()


def shared_root(ray: Part, *, volumes: Sequence[Part], root: str, size_limit: str) -> SharedRoot:
    """Find the volume on Ray's root, or on a folder above it; add one if there is none.

    A volume above (`/tmp`, where the root file system is read-only) is mounted at its own place:
    with a `subPath` the kubelet would make the folder, owned by root. Volumes below the root are
    shown read-only.
    """
    mounts = items(ray, "volumeMounts")
    mount = _covering(mounts, root)
    below = tuple(
        {**_same_place(each), "readOnly": True}
        for each in mounts
        if _path(each).startswith(root.rstrip("/") + "/")
    )
    if mount is None:
        return _added(volumes, root=root, size_limit=size_limit, below=below)
    shared = _same_place(mount)
    volume = named(volumes, text(mount, "name")) or {}
    env = _referenced(text(mount, "subPathExpr"), ray)
    warnings = _warnings(mount, volume)
    if _path(mount) == root and "emptyDir" in volume and not warnings and not env:
        return SharedRoot((shared, *below))
    return SharedRoot(
        mounts=(shared, *below, {"name": DATA_NAME, "mountPath": DATA_PATH}),
        env=(*env, {"name": "RAY_COLLECTOR_EVENT_DATA_DIR", "value": DATA_PATH}),
        volumes=({"name": DATA_NAME, "emptyDir": {}},),
        warnings=warnings,
    )


def _added(
    volumes: Sequence[Part], *, root: str, size_limit: str, below: tuple[dict[str, Any], ...]
) -> SharedRoot:
    name = NAME if named(volumes, NAME) is None else OTHER_NAME
    mount = {"name": name, "mountPath": root}
    source = {"sizeLimit": size_limit} if size_limit else {}
    return SharedRoot(
        mounts=(mount, *below), ray_mount=dict(mount), volumes=({"name": name, "emptyDir": source},)
    )


def _covering(mounts: Sequence[Part], root: str) -> Part | None:
    """The mount that holds the root: on it, or on the nearest folder above."""
    best: Part | None = None
    for mount in mounts:
        path = _path(mount)
        holds = path == root or root.startswith(path.rstrip("/") + "/")
        if path and holds and (best is None or len(path) > len(_path(best))):
            best = mount
    return best


def _path(mount: Part) -> str:
    path = text(mount, "mountPath")
    return posixpath.normpath(path) if path else ""


def _same_place(mount: Part) -> dict[str, Any]:
    names = ("name", "mountPath", "subPath", "subPathExpr")
    return {name: mount[name] for name in names if mount.get(name)}


def _warnings(mount: Part, volume: Part) -> tuple[str, ...]:
    where = text(mount, "mountPath")[:40]
    if mount.get("readOnly"):
        return (f"the volume on {where} is read-only for Ray: there may be nothing to collect",)
    if not any(volume.get(kind) is not None for kind in _PER_POD) and not mount.get("subPathExpr"):
        return (f"the volume on {where} may be shared by pods: their sessions and logs mix",)
    return ()


def _referenced(expression: str, ray: Part) -> tuple[dict[str, Any], ...]:
    """The Ray container's variables that an expression names, and those that they name.

    Kubernetes expands a container's `subPathExpr` with that container's own environment.
    """
    found: dict[str, dict[str, Any]] = {}
    waiting = _REFERENCE.findall(expression)
    while waiting:
        name = waiting.pop()
        variable = named(items(ray, "env"), name)
        if variable is not None and name not in found:
            found[name] = dict(variable)
            waiting += _REFERENCE.findall(text(variable, "value"))
    # A variable must stand after those that it names.
    return tuple(reversed(found.values()))
