"""Whether a pod gets a collector: a pure decision with an enumerated reason.

Precedence, strongest first: pod says no; RayCluster says no; pod says yes; RayCluster says
yes; the namespace's label. Reasons are used as they stand in logs, metrics, Events and by
`webhook explain`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a pod was patched or left alone."""

    NAMESPACE_LABEL = "namespace_label"
    CLUSTER_ANNOTATION = "cluster_annotation"
    POD_ANNOTATION = "pod_annotation"
    """Up to here: injected."""
    ALREADY_INJECTED = "already_injected"
    NOT_A_POD_CREATE = "not_a_pod_create"
    NOT_A_RAY_POD = "not_a_ray_pod"
    NOT_A_RAY_NODE = "not_a_ray_node"
    """A pod of a RayCluster that is neither head nor worker, as redis-cleanup."""
    EXCLUDED_NAMESPACE = "excluded_namespace"
    POD_OPTED_OUT = "pod_opted_out"
    CLUSTER_OPTED_OUT = "cluster_opted_out"
    NOT_OPTED_IN = "not_opted_in"
    NATIVE_COLLECTOR = "native_collector"
    """KubeRay's own `ray-history-collector` is there."""
    USER_COLLECTOR = "user_collector"
    """A collector that somebody put into the pod template."""
    FOREIGN_EVENT_SINK = "foreign_event_sink"
    """Ray sends its events to another host."""
    NAME_TAKEN = "name_taken"
    WINDOWS = "windows"
    HOST_NETWORK = "host_network"
    NO_FREE_PORT = "no_free_port"
    LOOKUP_FAILED = "lookup_failed"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    SELF_CHECK_FAILED = "self_check_failed"
    INTERNAL_ERROR = "internal_error"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a pod, and why."""

    inject: bool
    reason: Reason
    message: str
    """One sentence for people: what, where, what to do."""
    warnings: tuple[str, ...] = ()
    """For the user's terminal; at most 120 characters each."""
