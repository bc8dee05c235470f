"""What holds for every pod that can come, whatever users put into it."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.webhook.defaults import defaulted
from tests.webhook.pod_security import violations
from tests.webhook.samples import CLUSTER, LABELLED, MODES, RRSA, SETTINGS, facts, sample
from webhook.decisions import Reason, decide
from webhook.patches import Patched, PatchRefusedError, patched
from webhook.settings import (
    Collector,
    HookPolicy,
    HostNetworkPolicy,
    Settings,
    SidecarMode,
)

NAMES = [
    "ray-logs",
    "rayhs-tmp",
    "rayhs-data",
    "rayhs-storage",
    "rrsa-oidc-token",
    "mine",
    "ray-tls",
]
PATHS = [
    "/tmp",
    "/tmp/",
    "/tmp/ray",
    "/tmp/ray/",
    "/tmp/ray/a",
    "/tmp/rayx",
    "/data",
    "/",
    "/storage",
]
SOURCES: list[dict[str, Any]] = [
    {"emptyDir": {}},
    {"persistentVolumeClaim": {"claimName": "c"}},
    {"hostPath": {"path": "/x", "type": ""}},
    {"secret": {"secretName": "s", "defaultMode": 420}},
]
VARIABLES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"name": "RAY_enable_ray_event", "value": "0"},
        {"name": "RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES", "value": "ALL"},
        {"name": "RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES", "valueFrom": {"x": {}}},
        {
            "name": "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR",
            "value": "http://[::1]:99999/",
        },
        {
            "name": "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR",
            "value": "http://localhost:8090/v1/events",
        },
        {"name": "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR", "value": ""},
        {"name": "KUBERAY_GEN_RAY_START_CMD", "value": "ray start --temp-dir=/data --port=8084"},
        {"name": "RAY_AUTH_TOKEN_PATH", "value": "/data/token"},
        {"name": "STORAGE_BACKEND", "value": "theirs"},
        {"name": "RAY_ROLE", "value": "x"},
        {"name": "A", "value": "$(B)"},
        {"name": "B", "value": "$(A)"},
    ]
)
HOOKS: list[dict[str, Any] | None] = [
    None,
    {},
    {"postStart": {"exec": {"command": ["true"]}}, "preStop": {"sleep": {"seconds": 1}}},
    {"postStart": {"exec": {}}},
    {"postStart": {"tcpSocket": {"port": 1}}},
    {"preStop": {"exec": {"command": ["true"]}}},
]


CONTEXTS: list[dict[str, Any]] = [
    {},
    {"runAsUser": 0},
    {"runAsUser": 3, "seLinuxOptions": {"level": "s0"}},
]
ODDITIES: list[dict[str, Any]] = [
    {},
    {"hostNetwork": True},
    {"hostPID": True},
    {"unknown": {"~/": [1]}},
]
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            "sidecar-mode",
            "hook-policy",
            "grace-period-seconds",
            "cpu-request",
            "memory-limit",
            "temp-dir",
        ]
    ),
    st.sampled_from(
        ["native", "classic", "skip", "override", "7", "600", "2", "1Gi", "x", "/data/", "$X"]
    ),
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """A sample with what users may add to it; names are unique as Kubernetes demands."""
    pod = sample(draw(st.sampled_from(["kuberay-1.6-head", "kuberay-1.7-worker-mtls"])))
    spec, ray = pod["spec"], pod["spec"]["containers"][0]
    add_volumes(draw, spec, ray)
    change_ray(draw, ray)
    add_containers(draw, spec, ray)
    spec["securityContext"] = draw(st.sampled_from([{}, {"runAsUser": 0}, {"runAsUser": 7}]))
    spec |= draw(st.sampled_from(ODDITIES))
    fields = st.sets(st.sampled_from(["annotations", "initContainers", "imagePullSecrets"]))
    for field in draw(fields):
        (pod["metadata"] if field == "annotations" else spec).pop(field, None)
    if draw(st.booleans()):
        spec["terminationGracePeriodSeconds"] = draw(st.integers(0, 400))
    annotations = draw(ANNOTATIONS)
    if annotations:
        named = {f"rayhistory.io/{name}": value for name, value in annotations.items()}
        pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **named}
    return pod


def add_volumes(draw: st.DrawFn, spec: dict[str, Any], ray: dict[str, Any]) -> None:
    """Volumes with names that we use too, mounted on and about Ray's root."""
    volumes = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    known = {volume["name"] for volume in spec["volumes"]}
    spec["volumes"] += [
        {"name": name, **draw(st.sampled_from(SOURCES))} for name in volumes if name not in known
    ]
    paths = st.lists(st.sampled_from(PATHS), unique=True, max_size=3)
    for path in draw(paths) if volumes else []:
        mount: dict[str, Any] = {"name": draw(st.sampled_from(volumes)), "mountPath": path}
        mount |= draw(st.sampled_from([{}, {"readOnly": True}, {"subPathExpr": "$(A)/x"}]))
        ray["volumeMounts"].append(mount)


def change_ray(draw: st.DrawFn, ray: dict[str, Any]) -> None:
    """Variables, a hook, a name and a user of the Ray container."""
    for variable in draw(st.lists(VARIABLES, max_size=4)):
        if all(each["name"] != variable["name"] for each in ray["env"]):
            ray["env"].append(dict(variable))
    lifecycle = draw(st.sampled_from(HOOKS))
    if lifecycle is not None:
        ray["lifecycle"] = copy.deepcopy(lifecycle)
    ray["name"] = draw(st.sampled_from(["ray-head", "worker", "zz", "a"]))
    ray["securityContext"] = draw(st.sampled_from(CONTEXTS))


def add_containers(draw: st.DrawFn, spec: dict[str, Any], ray: dict[str, Any]) -> None:
    """An autoscaler, and sidecars that have ports and may have Ray's image."""
    if draw(st.booleans()):
        spec["containers"].append({"name": "autoscaler", "image": ray["image"]})
    images = draw(st.lists(st.sampled_from([ray["image"], "x"]), max_size=3))
    spec["containers"] += [
        {"name": f"user-{index}", "image": image, "ports": [{"containerPort": 8084 + index}]}
        for index, image in enumerate(images)
    ]


@st.composite
def rules(draw: st.DrawFn) -> Settings:
    """Settings of an operator."""
    return Settings(
        collector=Collector(
            image="a/b:1",
            image_pull_secrets=draw(st.sampled_from([(), ("one", "two", "one")])),
            mode=draw(st.sampled_from(list(SidecarMode))),
            run_as_user=draw(st.sampled_from([None, 1000])),
            hook_policy=draw(st.sampled_from(list(HookPolicy))),
            host_network=draw(
                st.sampled_from([HostNetworkPolicy.LOGS_ONLY, HostNetworkPolicy.INJECT])
            ),
            tmp_size_limit=draw(st.sampled_from(["", "4096Mi"])),
            env=SETTINGS.collector.env,
            volumes=draw(st.sampled_from([(), SETTINGS.collector.volumes])),
            volume_mounts=(),
        ),
        rrsa=draw(st.sampled_from([RRSA, Settings().rrsa])),
    )


def attempted(
    pod: dict[str, Any], mode: str, rule: Settings, account: str = "acc"
) -> Patched | None:
    """The patch; None where the pod is refused for a name or a port that it has."""
    try:
        return patched(pod, facts=facts(mode, service_account=account), settings=rule)
    except PatchRefusedError as error:
        if error.reason in (Reason.NAME_TAKEN, Reason.NO_FREE_PORT):
            return None
        raise


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """All of a pod."""
    return [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]


def ours(result: Patched) -> dict[str, Any]:
    """Our container."""
    name = next(
        each.removeprefix("container/") for each in result.added if each.startswith("container/")
    )
    return next(each for each in containers(result.pod) if each["name"] == name)


ALWAYS = settings(max_examples=60, deadline=None)


@ALWAYS
@given(pod=pods(), rule=rules(), mode=st.sampled_from(MODES))
def test_second_pass_is_empty(pod: dict[str, Any], rule: Settings, mode: str) -> None:
    """Also after the API server's defaults; so reinvocation costs nothing."""
    once = attempted(pod, mode, rule)
    if once is not None:
        again = attempted(defaulted(once.pod), mode, rule)
        assert again is not None
        assert (again.operations, again.added) == ([], ())
        assert again.events_port == once.events_port


@ALWAYS
@given(pod=pods(), rule=rules(), mode=st.sampled_from(MODES))
def test_patch_is_applicable_and_touches_only_its_own(
    pod: dict[str, Any], rule: Settings, mode: str
) -> None:
    """The operations make the pod; without what was added, it is the pod that came."""
    before = copy.deepcopy(pod)
    result = attempted(pod, mode, rule)
    assert pod == before
    if result is None:
        return
    assert jsonpatch.apply_patch(before, json.dumps(result.operations)) == result.pod
    old, new = pod["spec"]["containers"][0], result.pod["spec"]["containers"][0]
    touched = ("env", "volumeMounts", "lifecycle")
    assert {k: v for k, v in old.items() if k not in touched} == {
        k: v for k, v in new.items() if k not in touched
    }
    assert new["env"][: len(old["env"])] == old["env"]
    assert new["volumeMounts"][: len(old["volumeMounts"])] == old["volumeMounts"]
    assert new.get("lifecycle", {}).get("preStop") == old.get("lifecycle", {}).get("preStop")
    unchanged = set(pod["spec"]) - {
        "containers",
        "initContainers",
        "volumes",
        "imagePullSecrets",
        "serviceAccount",
        "serviceAccountName",
        "terminationGracePeriodSeconds",
    }
    assert all(result.pod["spec"][name] == pod["spec"][name] for name in unchanged)
    others = [each["name"] for each in containers(pod)]
    assert [each["name"] for each in containers(result.pod) if each["name"] in others] == others


@ALWAYS
@given(pod=pods(), rule=rules(), mode=st.sampled_from(MODES))
def test_names_are_unique_and_mounts_have_volumes(
    pod: dict[str, Any], rule: Settings, mode: str
) -> None:
    """What Kubernetes would refuse a pod for."""
    result = attempted(pod, mode, rule)
    if result is None:
        return
    names = [each["name"] for each in containers(result.pod)]
    volumes = [each["name"] for each in result.pod["spec"]["volumes"]]
    assert len(set(names)) == len(names)
    assert len(set(volumes)) == len(volumes)
    for container in (result.pod["spec"]["containers"][0], ours(result)):
        mounts = container["volumeMounts"]
        assert {mount["name"] for mount in mounts} <= set(volumes)
        variables = [variable["name"] for variable in container["env"]]
        assert len(set(variables)) == len(variables)
    paths = [mount["mountPath"].rstrip("/") for mount in ours(result)["volumeMounts"]]
    assert len(set(paths)) == len(paths)


@ALWAYS
@given(pod=pods(), rule=rules(), mode=st.sampled_from(MODES))
def test_our_container_is_restricted_and_sorts_behind_ray(
    pod: dict[str, Any], rule: Settings, mode: str
) -> None:
    """Pod Security, no GPUs, no probes; statuses[0] stays Ray's (Ray's autoscaler reads it)."""
    result = attempted(pod, mode, rule)
    if result is None:
        return
    collector = ours(result)
    assert violations(collector, pod["spec"]["securityContext"]) == []
    assert set(collector["resources"]["limits"]) == {"cpu", "memory", "ephemeral-storage"}
    assert not any(name.endswith("Probe") or name == "lifecycle" for name in collector)
    if result.mode == "native":
        assert result.pod["spec"]["initContainers"][-1] is collector
        assert collector["restartPolicy"] == "Always"
    else:
        assert result.pod["spec"]["containers"][-1] is collector
        assert collector["name"] > pod["spec"]["containers"][0]["name"]


@ALWAYS
@given(pod=pods(), rule=rules(), mode=st.sampled_from(MODES))
def test_collector_sees_rays_folder(pod: dict[str, Any], rule: Settings, mode: str) -> None:
    """Both containers have the same volume at the same place, on or above Ray's root."""
    result = attempted(pod, mode, rule)
    if result is None:
        return
    env = {variable["name"]: variable.get("value") for variable in ours(result)["env"]}
    root = env.get("RAY_TMP_ROOT", "/tmp/ray")

    def covering(container: dict[str, Any]) -> dict[str, Any]:
        fitting = [
            mount
            for mount in container["volumeMounts"]
            if f"{root}/".startswith(mount["mountPath"].rstrip("/") + "/")
        ]
        return dict(max(fitting, key=lambda mount: len(mount["mountPath"].rstrip("/"))))

    theirs, mine = covering(result.pod["spec"]["containers"][0]), covering(ours(result))
    assert theirs["name"] == mine["name"]
    assert theirs.get("subPathExpr") == mine.get("subPathExpr")
    assert "readOnly" not in mine


@pytest.mark.parametrize("lost", ["restartPolicy", "env", "volumeMounts", "securityContext"])
def test_what_another_webhook_dropped_is_put_back(lost: str) -> None:
    """Webhooks with old types drop `restartPolicy`; the pod would wait for ever."""
    once = patched(sample("kuberay-1.6-worker"), facts=facts(), settings=SETTINGS).pod
    broken = copy.deepcopy(once)
    dropped = broken["spec"]["initContainers"][-1].pop(lost)
    assert decide(broken, namespace=LABELLED, cluster=CLUSTER, settings=SETTINGS).inject
    repaired = patched(broken, facts=facts(), settings=SETTINGS)
    assert jsonpatch.apply_patch(broken, json.dumps(repaired.operations)) == once
    assert dropped
    assert [each["path"] for each in repaired.operations] == [f"/spec/initContainers/1/{lost}"]


def test_what_another_webhook_added_is_kept() -> None:
    """Cloud identity webhooks give every container variables and mounts; a mesh appends itself."""
    pod = patched(sample("kuberay-1.6-worker"), facts=facts(), settings=SETTINGS).pod
    other = copy.deepcopy(pod)
    collector = other["spec"]["initContainers"][-1]
    collector["env"].append({"name": "AWS_ROLE_ARN", "value": "x"})
    collector["image"] = "mirror.example/collector:1"
    other["spec"]["initContainers"].append({"name": "istio-proxy", "restartPolicy": "Always"})
    assert patched(other, facts=facts(), settings=SETTINGS).operations == []
