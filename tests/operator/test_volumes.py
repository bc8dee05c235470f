"""Ray's temporary folder in the volumes that users put there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.operator.platform import Platform
from tests.operator.pods import Pod, Space, env, mounts, new_space

pytestmark = pytest.mark.kube

DATA = "/var/lib/ray-history"
STORAGE = ("/ray-history", "ray-history-storage")


@pytest.fixture(scope="module")
def groups(platform: Platform, release: object) -> Iterator[Mapping[str, Pod]]:
    """The pods of one RayCluster, by group; none is refused for its volumes."""
    del release
    space = new_space(platform)
    space.apply("volumes")
    yield {pod.labels["ray.io/group"]: pod for pod in space.pods(7)}
    space.admin.delete(space.at("RayCluster", "volumes"))


def collected(pod: Pod) -> dict[str, str]:
    """The collector's mounts but for the storage."""
    assert pod.is_injected
    found = mounts(pod.collector)
    assert found.pop(STORAGE[0]) == STORAGE[1]
    return found


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        ("headgroup", {"/tmp/ray": "logs"}),
        ("parent", {"/tmp": "tmp", DATA: "rayhs-data"}),
        ("child", {"/tmp/ray": "ray-logs", "/tmp/ray/spill": "spill"}),
        ("read-only", {"/tmp/ray": "given", DATA: "rayhs-data"}),
        ("host-path", {"/tmp/ray": "disk", DATA: "rayhs-data"}),
        ("own-part", {"/tmp/ray": "claim", DATA: "rayhs-data"}),
        ("name-taken", {"/tmp/ray": "rayhs-tmp"}),
    ],
)
def test_the_collector_sees_what_ray_writes(
    groups: Mapping[str, Pod], group: str, wanted: Mapping[str, str]
) -> None:
    """The same volume at the same place; its own data only where no other pod can be."""
    pod = groups[group]
    assert collected(pod) == wanted
    shared = {path: name for path, name in mounts(pod.ray).items() if path in wanted}
    assert shared == {path: name for path, name in wanted.items() if path != DATA}


def test_each_pod_has_its_own_part_of_a_claim(groups: Mapping[str, Pod]) -> None:
    """The collector expands the same expression, so it has the variable, too."""
    collector = groups["own-part"].collector
    (mount,) = (each for each in collector["volumeMounts"] if each["mountPath"] == "/tmp/ray")
    assert mount["subPathExpr"] == "$(POD)"
    assert {
        "name": "POD",
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
    } in collector["env"]


def test_a_temporary_folder_elsewhere(space: Space) -> None:
    """From the command that KubeRay made; so is the dashboard's port."""
    space.apply("temp-dir")
    head, worker = space.ray_pods("head", "worker")
    for pod in (head, worker):
        assert env(pod.collector)["RAY_TMP_ROOT"] == "/data/ray"
        assert collected(pod) == {"/data": "data", DATA: "rayhs-data"}
        assert pod.ray["lifecycle"]["postStart"]["exec"]["command"][-1] == "/data/ray"
    assert env(head.collector)["RAY_DASHBOARD_ADDRESS"] == "http://localhost:8300"
    assert "RAY_DASHBOARD_ADDRESS" not in env(worker.collector)
