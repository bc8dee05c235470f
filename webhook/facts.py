"""What a decision and a patch need to know beyond the pod, and how it is asked.

The decision and the patch are pure: they get these facts, never a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

Pod = Mapping[str, Any]
"""A pod as the API server sent it: plain JSON, so that unknown fields survive."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What is known of the RayCluster that a pod belongs to."""

    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner_kind: str = ""
    """`rayjob` or `rayservice`, from KubeRay's label `ray.io/originated-from-crd`; else empty."""
    owner_name: str = ""


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """What is known of the pod's namespace."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """All that the patch needs of the world around one pod."""

    namespace: str
    cluster: ClusterFacts
    native_sidecars: bool
    """Whether API server and kubelets run native sidecars (1.29 or newer)."""
    service_account: str = ""
    """The account to run under; empty leaves the pod's own."""


class Needed(StrEnum):
    """What must be in a pod's namespace before the pod names it; plurals of the core API."""

    CLAIM = "persistentvolumeclaims"
    """Without it no node takes the pod."""
    ACCOUNT = "serviceaccounts"
    """Without it the API server refuses the pod."""


class LookupFailedError(Exception):
    """The API server did not tell in time. The pod is admitted unpatched."""


class Lookups(Protocol):
    """Asks the cluster. Every method is bounded in time and may be called from any thread."""

    def cluster(self, *, namespace: str, name: str, uid: str) -> ClusterFacts | None:
        """The RayCluster, or None when there is none of this uid.

        From the watch's copy; on a miss by one live GET, since pods are made milliseconds
        after their cluster. An empty uid matches any. Raises `LookupFailedError`.
        """

    def namespace(self, name: str) -> NamespaceFacts | None:
        """The namespace, or None. Raises `LookupFailedError`."""

    def exists(self, needed: Needed, *, namespace: str, name: str) -> bool:
        """Whether this object is there. Raises `LookupFailedError`."""

    def native_sidecars(self) -> bool:
        """Whether server and every schedulable node can run native sidecars; False in doubt."""


class Accounts(Protocol):
    """Makes what the ServiceAccount rule needs."""

    def ensure(
        self, *, name: str, cluster: ClusterFacts, pull_secrets: tuple[str, ...], autoscaler: bool
    ) -> None:
        """Make the account (and the autoscaler's RoleBinding) unless it is there.

        It must exist before the review is answered: Kubernetes' own ServiceAccount admission
        looks again at a changed pod and refuses one without its account. Raises
        `LookupFailedError` when it cannot be made.
        """
