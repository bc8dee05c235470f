"""Whether a pod gets a collector: a pure decision with an enumerated reason.

Precedence, strongest first: pod says no; RayCluster says no; pod says yes; RayCluster says
yes; the namespace's label. A namespace labelled `disabled` is left out altogether, as the
webhook configuration's selectors do. Reasons are used as they stand in logs, metrics, Events
and by `webhook explain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from webhook.collectors import NATIVE_NAME, native_collector, our_container, user_collector
from webhook.event_sink import EXPORT_ADDRESS, event_sink
from webhook.facts import ClusterFacts, NamespaceFacts, Pod
from webhook.overrides import yes_or_no
from webhook.pod_parts import CLUSTER, NODE_TYPE, all_containers, is_well_formed, part, text
from webhook.settings import ACK_ANNOTATION, ForeignSinkPolicy, HostNetworkPolicy, Settings

NODE_TYPES = ("head", "worker")


class Reason(StrEnum):
    """Why a pod was patched or left alone."""

    NAMESPACE_LABEL = "namespace_label"
    CLUSTER_ANNOTATION = "cluster_annotation"
    POD_ANNOTATION = "pod_annotation"
    ALREADY_INJECTED = "already_injected"
    """Ours is there, from an earlier pass: checked, and repaired where others broke it.

    Up to here: injected."""
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
    CLAIM_MISSING = "claim_missing"
    """No node would take the pod: the storage's claim is not in its namespace."""
    ACCOUNT_MISSING = "account_missing"
    """The API server would refuse the pod: the fixed account is not in its namespace."""
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


@dataclass(frozen=True, slots=True)
class Check:
    """One question of a decision, for `webhook explain`."""

    question: str
    answer: str
    decides: bool
    """Whether this answer ended the matter; the last check always does."""


@dataclass(frozen=True, slots=True)
class _Case:
    """What the questions are asked of."""

    pod: Pod
    namespace: NamespaceFacts | None
    cluster: ClusterFacts | None
    settings: Settings

    def says(self, values: Mapping[str, str], *names: str) -> bool | None:
        """Yes, no or nothing; no wins where names disagree."""
        words = [yes_or_no(values[name]) for name in names if name in values]
        return False if False in words else (True if True in words else None)

    def pod_says(self) -> bool | None:
        """The pod's annotation or label."""
        metadata = part(self.pod, "metadata")
        label = self.settings.scope.label
        words = [self.says(part(metadata, each), label) for each in ("annotations", "labels")]
        return False if False in words else (True if True in words else None)

    def cluster_says(self) -> bool | None:
        """The RayCluster's annotations: ours, and that of Container Service for Kubernetes."""
        if self.cluster is None:
            return None
        return self.says(self.cluster.annotations, ACK_ANNOTATION, self.settings.scope.label)

    def namespace_says(self) -> bool | None:
        """The namespace's label, else its annotation."""
        if self.namespace is None:
            return None
        label = self.settings.scope.label
        word = self.says(self.namespace.labels, label)
        return self.says(self.namespace.annotations, label) if word is None else word

    def opted_in(self) -> Reason | None:
        """Who says yes, the strongest first."""
        if self.pod_says():
            return Reason.POD_ANNOTATION
        if self.cluster_says():
            return Reason.CLUSTER_ANNOTATION
        return Reason.NAMESPACE_LABEL if self.namespace_says() else None


def decide(
    pod: Pod, *, namespace: NamespaceFacts | None, cluster: ClusterFacts | None, settings: Settings
) -> Decision:
    """Decide about one pod. Facts that are None are not known and say nothing."""
    case = _Case(pod, namespace, cluster, settings)
    for _, ask in _QUESTIONS:
        answer = ask(case)
        if answer is not None:
            return answer
    return _injected(case)


def explain(
    pod: Pod, *, namespace: NamespaceFacts | None, cluster: ClusterFacts | None, settings: Settings
) -> tuple[Decision, tuple[Check, ...]]:
    """The decision, and every question that led to it in the order they were asked."""
    case = _Case(pod, namespace, cluster, settings)
    checks: list[Check] = []
    for question, ask in _QUESTIONS:
        answer = ask(case)
        if answer is not None:
            return answer, (*checks, Check(question, answer.message, decides=True))
        checks.append(Check(question, "fine", decides=False))
    decision = _injected(case)
    return decision, (*checks, Check("Who asked for it?", decision.message, decides=True))


def _no(reason: Reason, message: str, *, case: _Case | None = None) -> Decision:
    warnings = () if case is None else _warnings(case)
    return Decision(inject=False, reason=reason, message=message, warnings=warnings)


def _ray_node(case: _Case) -> Decision | None:
    labels = part(part(case.pod, "metadata"), "labels")
    node_type = text(labels, NODE_TYPE)
    if not text(labels, CLUSTER) or not node_type:
        return _no(
            Reason.NOT_A_RAY_POD,
            f"the pod lacks KubeRay's labels {CLUSTER} and {NODE_TYPE}: it runs no Ray node",
        )
    if node_type not in NODE_TYPES:
        return _no(
            Reason.NOT_A_RAY_NODE,
            f"{NODE_TYPE} is {node_type[:63]}; only {' and '.join(NODE_TYPES)} pods have a history",
        )
    return None


def _namespace_excluded(case: _Case) -> Decision | None:
    namespace, scope = case.namespace, case.settings.scope
    if namespace is None:
        return None
    if namespace.name in scope.excluded_namespaces:
        return _no(
            Reason.EXCLUDED_NAMESPACE,
            f"namespace {namespace.name} is in scope.excludedNamespaces of the webhook's settings",
        )
    if case.says(namespace.labels, scope.label) is False:
        return _no(
            Reason.EXCLUDED_NAMESPACE,
            f"namespace {namespace.name} has the label {scope.label}: "
            f"{namespace.labels[scope.label]}",
        )
    return None


def _malformed(case: _Case) -> Decision | None:
    if is_well_formed(case.pod):
        return None
    return _no(Reason.MALFORMED, "a part of the pod has not the shape that Kubernetes gives it")


def _pod_opted_out(case: _Case) -> Decision | None:
    if case.pod_says() is not False:
        return None
    return _no(
        Reason.POD_OPTED_OUT, f"the pod has the annotation or label {case.settings.scope.label}: no"
    )


def _cluster_opted_out(case: _Case) -> Decision | None:
    if case.cluster is None or case.cluster_says() is not False:
        return None
    return _no(
        Reason.CLUSTER_OPTED_OUT,
        f"RayCluster {case.cluster.name} has {ACK_ANNOTATION} or {case.settings.scope.label}: no",
    )


def _not_opted_in(case: _Case) -> Decision | None:
    if case.opted_in() is not None:
        return None
    label = case.settings.scope.label
    return _no(
        Reason.NOT_OPTED_IN,
        f"nothing asks for a history: label the namespace {label}=enabled, or annotate the "
        f'RayCluster with {ACK_ANNOTATION}: "true" or {label}: "true"',
        case=case,
    )


def _already_injected(case: _Case) -> Decision | None:
    ours = our_container(case.pod)
    if ours is None:
        return None
    message = f"container {ours['name']} is there already; it is checked and kept"
    return Decision(True, Reason.ALREADY_INJECTED, message, _warnings(case))


def _other_collector(case: _Case) -> Decision | None:
    if native_collector(case.pod):
        return _no(
            Reason.NATIVE_COLLECTOR,
            f"KubeRay put its own collector {NATIVE_NAME} into the pod "
            "(historyServerOptions of the RayCluster)",
            case=case,
        )
    name = user_collector(case.pod)
    if name:
        return _no(
            Reason.USER_COLLECTOR,
            f"container {name} is a collector that came with the pod template; "
            "remove it there to have it added and kept up to date",
            case=case,
        )
    return None


def _name_taken(case: _Case) -> Decision | None:
    wanted = case.settings.collector.container_name
    if all(container.get("name") != wanted for container in all_containers(case.pod)):
        return None
    return _no(
        Reason.NAME_TAKEN,
        f"the pod has a container {wanted} of its own; rename it, or set collector.containerName",
        case=case,
    )


def _windows(case: _Case) -> Decision | None:
    spec = part(case.pod, "spec")
    selector = part(spec, "nodeSelector")
    systems = [
        part(spec, "os").get("name"),
        *(selector.get(name) for name in ("kubernetes.io/os", "beta.kubernetes.io/os")),
    ]
    if "windows" not in systems and not part(spec, "securityContext").get("windowsOptions"):
        return None
    return _no(Reason.WINDOWS, "the collector runs on Linux only; this is a pod for Windows")


def _host_network(case: _Case) -> Decision | None:
    skips = case.settings.collector.host_network is HostNetworkPolicy.SKIP
    if not skips or not part(case.pod, "spec").get("hostNetwork"):
        return None
    return _no(
        Reason.HOST_NETWORK,
        "the pod is on its node's network and collector.hostNetwork of the settings is skip",
        case=case,
    )


def _foreign_sink(case: _Case) -> Decision | None:
    if case.settings.collector.foreign_sink is not ForeignSinkPolicy.SKIP:
        return None
    sink = event_sink(case.pod)
    if sink is None or not sink.is_foreign:
        return None
    return _no(
        Reason.FOREIGN_EVENT_SINK,
        f"Ray sends its events to {sink.address[:80]}; remove {EXPORT_ADDRESS} from the Ray "
        "container, or set collector.foreignSink to logsOnly",
        case=case,
    )


_QUESTIONS: tuple[tuple[str, Callable[[_Case], Decision | None]], ...] = (
    ("Is it a head or worker pod of a RayCluster?", _ray_node),
    ("May pods of its namespace have a collector?", _namespace_excluded),
    ("Has it the shape of a pod?", _malformed),
    ("Does the pod say no?", _pod_opted_out),
    ("Does its RayCluster say no?", _cluster_opted_out),
    ("Does pod, RayCluster or namespace say yes?", _not_opted_in),
    ("Has it our collector already?", _already_injected),
    ("Has it another collector?", _other_collector),
    ("Is our container's name free?", _name_taken),
    ("Is it for Linux?", _windows),
    ("Is it on a network of its own, or may it be on the node's?", _host_network),
    ("Are Ray's events free to be collected?", _foreign_sink),
)


def _injected(case: _Case) -> Decision:
    reason = case.opted_in() or Reason.NAMESPACE_LABEL
    who = {
        Reason.POD_ANNOTATION: "the pod's annotation",
        Reason.CLUSTER_ANNOTATION: "the RayCluster's annotation",
        Reason.NAMESPACE_LABEL: "the namespace's label",
    }[reason]
    return Decision(True, reason, f"a collector is added, as {who} asks", _warnings(case))


def _warnings(case: _Case) -> tuple[str, ...]:
    """Values that are neither yes nor no; nothing was made of them."""
    label = case.settings.scope.label
    metadata = part(case.pod, "metadata")
    places = [
        ("the pod", part(metadata, "annotations"), label),
        ("the pod", part(metadata, "labels"), label),
    ]
    if case.cluster is not None:
        places += [
            ("RayCluster", case.cluster.annotations, name) for name in (ACK_ANNOTATION, label)
        ]
    return tuple(
        f"{name} of {who} is {str(values[name])[:20]!r}: only true and false count"[:120]
        for who, values, name in places
        if name in values and yes_or_no(values[name]) is None
    )
