"""What the collector needs to speak with Ray's dashboard: tokens and certificates, as Ray has them.

KubeRay gives its own collector the same: the variables of token authentication (KubeRay 1.5 with
the Secret named after the cluster, 1.6 with Kubernetes tokens), verbatim, and their mounts.
"""

from __future__ import annotations

import posixpath
from typing import Any

from webhook.pod_parts import Part, items, text

TOKEN_VARIABLES = (
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN",
    "RAY_AUTH_TOKEN_PATH",
    "RAY_ENABLE_K8S_TOKEN_AUTH",
)
TLS_VARIABLES = (
    "RAY_USE_TLS",
    "RAY_TLS_SERVER_CERT",
    "RAY_TLS_SERVER_KEY",
    "RAY_TLS_CA_CERT",
)
_COPIED = frozenset({*TOKEN_VARIABLES, *TLS_VARIABLES})
_PATHS = frozenset({"RAY_AUTH_TOKEN_PATH", *TLS_VARIABLES[1:]})
TOKEN_PATH = "/var/run/secrets/ray.io/serviceaccount"  # noqa: S105 - a path
_VOLUMES = frozenset({"ray-token", "ray-tls"})
"""KubeRay's names for the volumes of Kubernetes tokens and of mutual TLS."""


def auth_env(ray: Part) -> list[dict[str, Any]]:
    """The Ray container's variables for tokens and certificates, verbatim."""
    return [dict(each) for each in items(ray, "env") if each.get("name") in _COPIED]


def auth_mounts(ray: Part) -> list[dict[str, Any]]:
    """The Ray container's mounts that hold the files those variables name, read-only."""
    folders = {TOKEN_PATH} | {
        posixpath.dirname(text(each, "value"))
        for each in items(ray, "env")
        if each.get("name") in _PATHS and text(each, "value")
    }
    return [
        {**mount, "readOnly": True}
        for mount in items(ray, "volumeMounts")
        if mount.get("name") in _VOLUMES or _holds(text(mount, "mountPath"), folders)
    ]


def _holds(path: str, folders: set[str]) -> bool:
    """Whether one of the folders is the mount's, or inside it; `/` and such count as nobody's."""
    path = path.rstrip("/")
    return path.count("/") > 1 and any(f"{folder}/".startswith(f"{path}/") for folder in folders)
