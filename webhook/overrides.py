"""What users say by annotation: on a pod, or for all its pods on the RayCluster.

KubeRay copies a RayJob's and a RayService's annotations to their RayCluster, but none from a
RayCluster to its pods; so both places are read, and the pod's word is stronger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PREFIX = "rayhistory.io/"
SIDECAR_MODE = PREFIX + "sidecar-mode"
"""`native` or `classic`."""
HOOK_POLICY = PREFIX + "hook-policy"
"""`merge`, `override` or `skip`."""
GRACE_PERIOD = PREFIX + "grace-period-seconds"
TEMP_DIR = PREFIX + "temp-dir"
"""Ray's temporary root, where the pod does not tell: a worker's follows the head's."""
RESOURCE_SUFFIXES = {
    "cpu-request": ("requests", "cpu"),
    "cpu-limit": ("limits", "cpu"),
    "memory-request": ("requests", "memory"),
    "memory-limit": ("limits", "memory"),
    "ephemeral-storage-request": ("requests", "ephemeral-storage"),
    "ephemeral-storage-limit": ("limits", "ephemeral-storage"),
}
"""`rayhistory.io/cpu-request` and so on: the collector's resources."""

_WORDS = {"true": True, "enabled": True, "false": False, "disabled": False}


@dataclass(frozen=True, slots=True)
class Overrides:
    """The annotations of a pod and of its RayCluster."""

    pod: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> str:
        """The pod's value, else the RayCluster's, else empty."""
        value = self.pod.get(name) or self.cluster.get(name) or ""
        return value.strip() if isinstance(value, str) else ""


def yes_or_no(value: object) -> bool | None:
    """`true` or `enabled`, `false` or `disabled`, in any case of letters; None for all else."""
    return _WORDS.get(value.strip().lower()) if isinstance(value, str) else None
