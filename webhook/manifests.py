"""Pods inside manifests, for `webhook inject` and `webhook explain`: no cluster is asked.

Finds the pod templates of RayCluster, RayJob, RayService, RayCronJob, of Pods, of everything
with a pod template, and of Lists; makes of each the pod that KubeRay would, as far as this
matters here (labels, and the `ray start` of `rayStartParams`); decides and patches with the
same code as the admission; and puts the result back without what was only simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from webhook.decisions import Check, Decision, explain
from webhook.facts import ClusterFacts, NamespaceFacts, PodFacts
from webhook.patches import Patched, PatchRefusedError, patched
from webhook.pod_parts import CLUSTER, NODE_TYPE, START_COMMAND, Part, items, named, part, text
from webhook.settings import AccountMode, Settings

GENERATED = "name-made-by-kuberay"
"""Stands for the name of a RayCluster that KubeRay makes for a RayJob or RayService."""
_RAY_SPECS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "RayCluster": (("spec",),),
    "RayJob": (("spec", "rayClusterSpec"),),
    "RayService": (("spec", "rayClusterConfig"),),
    "RayCronJob": (
        ("spec", "jobTemplate", "rayClusterSpec"),
        ("spec", "jobTemplate", "spec", "rayClusterSpec"),
    ),
}
_OWNERS = {"RayJob": "rayjob", "RayService": "rayservice"}
_TEMPLATES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod template, and the pod that it becomes."""

    place: Place
    """Where it is in the document."""
    pod: dict[str, Any]
    cluster: ClusterFacts


@dataclass(frozen=True, slots=True)
class TemplateResult:
    """What became of one pod template."""

    kind: str
    name: str
    place: str
    """As `spec.headGroupSpec.template`; empty for a Pod."""
    decision: Decision
    checks: tuple[Check, ...]
    """Every question of the decision, in order."""
    patch: Patched | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Injected:
    """A document with collectors in it."""

    document: Any
    """The same object when nothing was added."""
    results: tuple[TemplateResult, ...]
    """Empty when the document has no pods."""


def injected(
    document: Any, *, namespace: NamespaceFacts, settings: Settings, native_sidecars: bool
) -> Injected:
    """Put collectors into one document.

    Args:
        document: a YAML document as plain data; never changed.
        namespace: what is assumed of the namespace; its name holds where the document says none.
        settings: the webhook's settings.
        native_sidecars: whether the cluster meant runs Kubernetes 1.29 or newer everywhere.

    """
    results: list[TemplateResult] = []
    for place, resource in _resources(document, ()):
        named_in_it = text(part(resource, "metadata"), "namespace") or namespace.name
        home = replace(namespace, name=named_in_it)
        for template in _pod_templates(resource, namespace=named_in_it):
            result = _result(resource, template, home, settings, native=native_sidecars)
            results.append(result)
            if result.patch is not None and result.patch.operations:
                content = _written_back(resource, template, result.patch.pod)
                document = _with(document, (*place, *template.place), content)
    return Injected(document, tuple(results))


def _result(
    resource: Part,
    template: PodTemplate,
    namespace: NamespaceFacts,
    settings: Settings,
    *,
    native: bool,
) -> TemplateResult:
    decision, checks = explain(
        template.pod, namespace=namespace, cluster=template.cluster, settings=settings
    )
    patch, warnings = None, list(decision.warnings)
    if decision.inject:
        facts = PodFacts(
            namespace=namespace.name,
            cluster=template.cluster,
            native_sidecars=native,
            service_account=_account(settings, warnings),
        )
        try:
            patch = patched(template.pod, facts=facts, settings=settings)
            warnings += patch.warnings
        except PatchRefusedError as error:
            decision = Decision(inject=False, reason=error.reason, message=str(error))
            checks = (*checks, Check("Can it be patched?", str(error), decides=True))
    return TemplateResult(
        kind=text(resource, "kind"),
        name=text(part(resource, "metadata"), "name"),
        place=".".join(str(step) for step in template.place),
        decision=decision,
        checks=checks,
        patch=patch,
        warnings=tuple(warnings),
    )


def _account(settings: Settings, warnings: list[str]) -> str:
    """An account that is made per cluster cannot be in a manifest: nothing would make it."""
    rule = settings.service_account
    if rule.mode is AccountMode.PER_CLUSTER:
        warnings.append("the ServiceAccount is left: accounts per cluster are made at admission")
    return rule.name if rule.mode is AccountMode.FIXED else ""


def _resources(document: Any, place: Place) -> Iterator[tuple[Place, Part]]:
    """The document itself, or the items of a List."""
    if not isinstance(document, dict):
        return
    if text(document, "kind").endswith("List") and isinstance(document.get("items"), list):
        for index, item in enumerate(document["items"]):
            yield from _resources(item, (*place, "items", index))
    else:
        yield place, document


def _pod_templates(resource: Part, *, namespace: str) -> Iterator[PodTemplate]:
    kind = text(resource, "kind")
    if kind in _RAY_SPECS:
        for path in _RAY_SPECS[kind]:
            yield from _ray_templates(resource, path, namespace=namespace)
        return
    for path in ((),) if kind == "Pod" else _TEMPLATES:
        template = _at(resource, path)
        if isinstance(template, dict) and items(part(template, "spec"), "containers"):
            name = text(part(part(template, "metadata"), "labels"), CLUSTER)
            cluster = ClusterFacts(namespace=namespace, name=name, uid="")
            yield PodTemplate(path, template, cluster)


def _ray_templates(
    resource: Part, path: tuple[str, ...], *, namespace: str
) -> Iterator[PodTemplate]:
    spec = _at(resource, path)
    if not isinstance(spec, dict):
        return
    cluster = _cluster(resource, namespace=namespace)
    groups: list[tuple[Place, str]] = [(("headGroupSpec",), "head")]
    groups += [
        (("workerGroupSpecs", index), "worker")
        for index, _ in enumerate(items(spec, "workerGroupSpecs"))
    ]
    for step, node_type in groups:
        group = _at(spec, step)
        if isinstance(group, dict) and isinstance(group.get("template"), dict):
            pod = _simulated(group, node_type, cluster)
            yield PodTemplate((*path, *step, "template"), pod, cluster)


def _cluster(resource: Part, *, namespace: str) -> ClusterFacts:
    """KubeRay hands annotations of a RayJob and RayService on to their RayCluster; those of a
    RayCronJob get lost.
    """
    kind, metadata = text(resource, "kind"), part(resource, "metadata")
    owner = _OWNERS.get(kind, "")
    return ClusterFacts(
        namespace=namespace,
        name=text(metadata, "name") if kind == "RayCluster" else "",
        uid="",
        annotations={} if kind == "RayCronJob" else part(metadata, "annotations"),
        owner_kind=owner,
        owner_name=text(metadata, "name") if owner else "",
    )


def _simulated(group: Part, node_type: str, cluster: ClusterFacts) -> dict[str, Any]:
    """The pod that KubeRay makes of a group's template, in what is read here."""
    template = group["template"]
    metadata, spec = part(template, "metadata"), part(template, "spec")
    labels = {
        **part(metadata, "labels"),
        NODE_TYPE: node_type,
        CLUSTER: cluster.name or GENERATED,
    }
    pod = {**template, "metadata": {**metadata, "labels": labels}, "spec": dict(spec)}
    containers = items(spec, "containers")
    if containers and isinstance(containers[0], dict) and not _start_command(containers[0]):
        options = part(group, "rayStartParams")
        command = " ".join(["ray start", *(f"--{name}={value}" for name, value in options.items())])
        env = [*items(containers[0], "env"), {"name": START_COMMAND, "value": command}]
        pod["spec"]["containers"] = [{**containers[0], "env": env}, *containers[1:]]
    return pod


def _start_command(container: Part) -> Part | None:
    return named(items(container, "env"), START_COMMAND)


def _written_back(resource: Part, template: PodTemplate, after: Part) -> dict[str, Any]:
    """The patched template: what was only simulated is as it was before."""
    if text(resource, "kind") not in _RAY_SPECS:
        return dict(after)
    original = _at(resource, template.place)
    metadata = {
        **part(original, "metadata"),
        "annotations": part(part(after, "metadata"), "annotations"),
    }
    spec = dict(part(after, "spec"))
    first, *others = items(spec, "containers")
    if not _start_command(items(part(original, "spec"), "containers")[0]):
        env = [each for each in items(first, "env") if each.get("name") != START_COMMAND]
        first = {**first, "env": env}
        if not env:
            del first["env"]
    return {**original, "metadata": metadata, "spec": {**spec, "containers": [first, *others]}}


def _at(value: Any, place: Place) -> Any:
    for step in place:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _with(value: Any, place: Place, content: Any) -> Any:
    """A copy with other content at a place; what lies beside is shared."""
    if not place:
        return content
    step, *rest = place
    changed: Any = list(value) if isinstance(value, list) else dict(value)
    changed[step] = _with(value[step], tuple(rest), content)
    return changed
