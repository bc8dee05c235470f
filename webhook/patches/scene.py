"""All that the patch's rules read, found once per pod."""

from __future__ import annotations

from dataclasses import dataclass

from webhook.collectors import our_container
from webhook.decisions import Reason
from webhook.event_sink import EventSink, event_sink
from webhook.facts import Pod, PodFacts
from webhook.overrides import SIDECAR_MODE, Overrides
from webhook.patches.ports import free_port, taken_ports
from webhook.patches.refusal import PatchRefusedError
from webhook.patches.sidecar import CLASSIC, NATIVE, classic_name
from webhook.patches.temp_dir import temp_dir
from webhook.pod_parts import Part, all_containers, env_value, items, part, ray_container, text
from webhook.settings import HostNetworkPolicy, Settings, SidecarMode

METRICS_PORT = 8085


@dataclass(frozen=True, slots=True)
class Scene:
    """One pod, and what was found out about it."""

    pod: Pod
    spec: Part
    ray: Part
    facts: PodFacts
    settings: Settings
    overrides: Overrides
    ours: Part | None
    """Our container, from an earlier pass."""
    mode: str
    name: str
    events_port: int
    """0: the collector takes no events."""
    metrics_port: int
    """0: any, within the pod."""
    root: str
    """Ray's temporary root."""
    warnings: tuple[str, ...]


def scene_of(pod: Pod, *, facts: PodFacts, settings: Settings) -> Scene:
    """Look at a pod. Raises `PatchRefusedError` when no port is free."""
    spec, ray = part(pod, "spec"), ray_container(pod)
    if not ray:
        raise PatchRefusedError(Reason.MALFORMED, "the pod has no containers")
    annotations = part(part(pod, "metadata"), "annotations")
    overrides = Overrides(annotations, facts.cluster.annotations)
    ours = our_container(pod)
    sink = event_sink(pod, ours=ours)
    mode, mode_warning = _mode(spec, ours, facts, settings, overrides)
    root, root_warning = temp_dir(ray, overrides=overrides)
    on_node = bool(spec.get("hostNetwork"))
    events_port, metrics_port = _ports(pod, ours, sink, settings, on_node=on_node)
    name = settings.collector.container_name
    if ours is not None:
        name = text(ours, "name")
    elif mode == CLASSIC:
        name = classic_name(name, ray_name=text(ray, "name"))
    if ours is None and any(each.get("name") == name for each in all_containers(pod)):
        raise PatchRefusedError(Reason.NAME_TAKEN, f"the pod has a container {name} of its own")
    return Scene(
        pod=pod,
        spec=spec,
        ray=ray,
        facts=facts,
        settings=settings,
        overrides=overrides,
        ours=ours,
        mode=mode,
        name=name,
        events_port=events_port,
        metrics_port=metrics_port,
        root=root,
        warnings=(mode_warning, root_warning, _events_warning(sink, settings, on_node=on_node)),
    )


def _mode(
    spec: Part, ours: Part | None, facts: PodFacts, settings: Settings, overrides: Overrides
) -> tuple[str, str]:
    """Native where it can run. A pod's wish for `native` cannot make an old kubelet run it:
    there the container would be an ordinary init container, and Ray would wait for ever.
    """
    if ours is not None:
        native = any(each is ours for each in items(spec, "initContainers"))
        return (NATIVE if native else CLASSIC), ""
    setting = settings.collector.mode
    can = setting is SidecarMode.NATIVE or facts.native_sidecars
    wish = overrides.get(SIDECAR_MODE)
    if wish == CLASSIC:
        return CLASSIC, ""
    if wish == NATIVE:
        return (NATIVE, "") if can else (CLASSIC, "native sidecars need Kubernetes 1.29 everywhere")
    warning = f"{SIDECAR_MODE}: {wish[:20]!r} is neither native nor classic" if wish else ""
    return (NATIVE if can and setting is not SidecarMode.CLASSIC else CLASSIC), warning


def _ports(
    pod: Pod, ours: Part | None, sink: EventSink | None, settings: Settings, *, on_node: bool
) -> tuple[int, int]:
    """The ports for events and metrics; those of an earlier pass are kept."""
    if ours is not None and env_value(ours, "METRICS_PORT") is not None:
        return _own_port(ours, "EVENTS_PORT"), _own_port(ours, "METRICS_PORT")
    policy, taken = settings.collector.host_network, taken_ports(pod, ours=ours)
    if (on_node and policy is HostNetworkPolicy.LOGS_ONLY) or (sink and sink.is_foreign):
        events_port = 0
    else:
        first = settings.collector.events_port
        events_port = sink.port if sink else free_port(first, taken=taken)
        if not events_port:
            raise PatchRefusedError(
                Reason.NO_FREE_PORT, f"containers of the pod take all ports from {first} on"
            )
    metrics_port = free_port(METRICS_PORT, taken=taken | {events_port})
    return events_port, 0 if on_node else metrics_port


def _own_port(ours: Part, name: str) -> int:
    value = env_value(ours, name) or ""
    return int(value) if value.isdecimal() else 0


def _events_warning(sink: EventSink | None, settings: Settings, *, on_node: bool) -> str:
    if on_node and settings.collector.host_network is HostNetworkPolicy.LOGS_ONLY:
        return "the pod is on its node's network: logs are collected, events are not"
    if sink is not None and sink.is_foreign:
        return f"Ray sends its events to {sink.address[:50]}: only logs are collected"
    return ""
