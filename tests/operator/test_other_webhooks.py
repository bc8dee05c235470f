"""Other webhooks that change the same pods, before ours and after it, and a second release."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operator.conftest import Install
from tests.operator.other_webhook import other_webhook
from tests.operator.platform import Platform
from tests.operator.pods import COLLECTOR, STATUS, Space, env, mounts, new_space

pytestmark = pytest.mark.kube

BEFORE, AFTER = "a-first", "z-last"
"""Ours is called after its namespace, `history-...`."""
MESH = {"name": "mesh-proxy", "image": "mesh:1", "restartPolicy": "Always"}


def add_mesh(pod: dict[str, Any]) -> None:
    """As service meshes do: a native sidecar, first of all."""
    containers = pod["spec"].setdefault("initContainers", [])
    if MESH["name"] not in [each["name"] for each in containers]:
        containers.insert(0, dict(MESH))


def forget_restarts(pod: dict[str, Any]) -> None:
    """As webhooks do that were built before native sidecars: what they do not know is gone."""
    for each in pod["spec"].get("initContainers", []):
        each.pop("restartPolicy", None)


def add_to_all(pod: dict[str, Any]) -> None:
    """As injectors of settings and certificates do: something in every container."""
    pod["spec"].setdefault("volumes", [])
    if "bundle" not in [each["name"] for each in pod["spec"]["volumes"]]:
        pod["spec"]["volumes"].append({"name": "bundle", "emptyDir": {}})
    for kind in ("initContainers", "containers"):
        for each in pod["spec"].get(kind, []):
            if "REGION" not in [variable["name"] for variable in each.get("env", [])]:
                each.setdefault("env", []).append({"name": "REGION", "value": "here"})
                mount = {"name": "bundle", "mountPath": "/etc/bundle"}
                each.setdefault("volumeMounts", []).append(mount)


@pytest.mark.parametrize("name", [BEFORE, AFTER])
def test_a_mesh_beside_us(space: Space, name: str) -> None:
    """Both sidecars are there, once; ours ends before the mesh's proxy does."""
    with other_webhook(space, add_mesh, name=name):
        space.apply("cluster")
        for pod in space.pods(3):
            names = [each["name"] for each in pod.spec["initContainers"]]
            assert (names[0], names[-1]) == (MESH["name"], COLLECTOR)
            assert len(names) == len(set(names))
            assert pod.is_injected


def test_an_old_webhook_after_us_breaks_nothing(space: Space) -> None:
    """A sidecar that lost its restart policy would keep Ray from starting: it gets it back."""
    with other_webhook(space, forget_restarts, name=AFTER):
        space.apply("cluster")
        for pod in space.pods(3):
            assert pod.collector["restartPolicy"] == "Always"


@pytest.mark.parametrize("name", [BEFORE, AFTER])
@pytest.mark.parametrize("reinvocation", ["Never", "IfNeeded"])
def test_what_others_add_to_all_containers_is_kept(
    space: Space, name: str, reinvocation: str
) -> None:
    """In Ray's always; in ours where they come after us or look again."""
    with other_webhook(space, add_to_all, name=name, reinvocation=reinvocation):
        space.apply("cluster")
        for pod in space.pods(3):
            told = env(pod.ray)
            assert told["REGION"] == "here"
            assert told["RAY_enable_ray_event"] == "true"
            has = name == AFTER or reinvocation == "IfNeeded"
            assert ("/etc/bundle" in mounts(pod.collector)) is has
            assert ("REGION" in env(pod.collector)) is has


def test_two_releases_with_one_label_add_one_collector(
    platform: Platform, install: Install
) -> None:
    """The second finds the first's, and keeps it as it is."""
    first = install("images.collector.repository=one")
    second = install("images.collector.repository=two", label=first.label)
    space = new_space(platform, label=first.label)
    space.apply("cluster")
    images = set()
    for pod in space.pods(3):
        assert pod.container_names.count(COLLECTOR) == 1
        assert STATUS in pod.object["metadata"]["annotations"]
        images.add(pod.collector["image"].partition(":")[0])
    assert images == {"one" if first.namespace < second.namespace else "two"}
