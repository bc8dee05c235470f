"""How Ray's temporary root is shared: every way in which a pod may have it already."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.overrides import TEMP_DIR, Overrides
from webhook.patches.temp_dir import temp_dir
from webhook.patches.volume import DATA_NAME, DATA_PATH, shared_root

EMPTY = {"name": "v", "emptyDir": {}}
DATA_MOUNT = {"name": DATA_NAME, "mountPath": DATA_PATH}
DATA_VOLUME = {"name": DATA_NAME, "emptyDir": {}}


def root_of(
    mounts: list[dict[str, Any]], *volumes: dict[str, Any], root: str = "/tmp/ray", **ray: Any
) -> Any:
    """The rule for a Ray container with these mounts."""
    container = {"name": "ray", "volumeMounts": mounts, **ray}
    return shared_root(container, volumes=volumes, root=root, size_limit="")


def test_without_a_volume_one_is_added_for_both() -> None:
    """Under KubeRay's name, by which its autoscaler finds it."""
    found = root_of([])
    assert found.volumes == ({"name": "ray-logs", "emptyDir": {}},)
    assert found.mounts == ({"name": "ray-logs", "mountPath": "/tmp/ray"},)
    assert found.ray_mount == found.mounts[0]


def test_added_volume_may_be_limited_and_avoids_a_taken_name() -> None:
    """`ray-logs` may be something else of the user."""
    found = shared_root({}, volumes=[{"name": "ray-logs"}], root="/r", size_limit="2Gi")
    assert found.volumes == ({"name": "rayhs-tmp", "emptyDir": {"sizeLimit": "2Gi"}},)


def test_exact_mount_is_shared_as_it_is() -> None:
    """With its subPath; nothing is added."""
    mount = {"name": "v", "mountPath": "/tmp/ray/", "subPath": "a", "mountPropagation": "None"}
    found = root_of([mount], EMPTY)
    assert found.mounts == ({"name": "v", "mountPath": "/tmp/ray/", "subPath": "a"},)
    assert (found.ray_mount, found.volumes, found.env, found.warnings) == (None, (), (), ())


def test_mount_above_is_mounted_above() -> None:
    """A subPath would be made by the kubelet, owned by root; the collector's data goes elsewhere,
    so that it does not make Ray's folder with its own user."""
    found = root_of([{"name": "v", "mountPath": "/tmp"}], EMPTY)
    assert found.mounts == ({"name": "v", "mountPath": "/tmp"}, DATA_MOUNT)
    assert found.volumes == (DATA_VOLUME,)
    assert found.env == ({"name": "RAY_COLLECTOR_EVENT_DATA_DIR", "value": DATA_PATH},)
    assert found.ray_mount is None


def test_nearest_mount_counts_and_lookalikes_do_not() -> None:
    """`/tmp/ra` is no folder above `/tmp/ray`."""
    mounts = [
        {"name": name, "mountPath": path}
        for name, path in (("a", "/"), ("b", "/tmp"), ("c", "/tmp/ra"))
    ]
    assert (
        root_of(mounts, *({"name": name, "emptyDir": {}} for name in "abc")).mounts[0]["name"]
        == "b"
    )


def test_mounts_below_are_shown_read_only() -> None:
    """Spilled objects on a fast disk, for instance."""
    found = root_of([{"name": "nvme", "mountPath": "/tmp/ray/spill", "subPath": "x"}])
    assert found.mounts[1] == {
        "name": "nvme",
        "mountPath": "/tmp/ray/spill",
        "subPath": "x",
        "readOnly": True,
    }
    assert found.ray_mount is not None


@pytest.mark.parametrize(
    "source",
    [{"hostPath": {"path": "/x"}}, {"persistentVolumeClaim": {"claimName": "c"}}, {"nfs": {}}],
)
def test_volume_that_pods_may_share_is_told(source: dict[str, Any]) -> None:
    """Sessions mix there; the collector's own data must not: one collector per folder."""
    found = root_of([{"name": "v", "mountPath": "/tmp/ray"}], {"name": "v", **source})
    assert found.warnings == (
        "the volume on /tmp/ray may be shared by pods: their sessions and logs mix",
    )
    assert found.volumes == (DATA_VOLUME,)


def test_read_only_volume_is_told() -> None:
    """Ray can write nothing there; the collector's mount is not made read-only for it."""
    found = root_of([{"name": "v", "mountPath": "/tmp/ray", "readOnly": True}], EMPTY)
    assert "read-only" in found.warnings[0]
    assert found.mounts == ({"name": "v", "mountPath": "/tmp/ray"}, DATA_MOUNT)


def test_folder_per_pod_takes_its_variables_along() -> None:
    """Kubernetes expands subPathExpr with the container's own environment; also in a circle."""
    env = [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "OTHER", "value": "x"},
        {"name": "FOLDER", "value": "s/$(POD)/$(FOLDER)/$(GONE)"},
    ]
    mount = {"name": "v", "mountPath": "/tmp/ray", "subPathExpr": "$(FOLDER)"}
    found = root_of([mount], {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, env=env)
    assert [each["name"] for each in found.env] == ["POD", "FOLDER", "RAY_COLLECTOR_EVENT_DATA_DIR"]
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("command", "annotation", "root"),
    [
        ("ray start --head", "", "/tmp/ray"),
        ("ray start --temp-dir=/data/ray --head", "", "/data/ray"),
        ("ray start --temp-dir /data/ray/", "", "/data/ray"),
        ("ulimit -n 1; ray start --temp-dir='/my data' && x", "", "/my data"),
        ('ray start --temp-dir="/a/../b"', "", "/b"),
        ("ray start --temp-dir=/a; ray start --temp-dir=/b;", "", "/b"),
        ("ray start --address=x", "/data/ray/", "/data/ray"),
        ("ray start --temp-dir=/a", "/b", "/a"),
        ("ray start --temp-dir=$HOME/ray", "/home/ray/ray", "/home/ray/ray"),
    ],
)
@pytest.mark.parametrize("where", ["args", "record"])
def test_root_is_what_ray_start_says(command: str, annotation: str, root: str, where: str) -> None:
    """In KubeRay's record or in the container's own command; else the annotation; else Ray's."""
    ray: dict[str, Any] = {"args": [command]}
    if where == "record":
        ray = {"env": [{"name": "KUBERAY_GEN_RAY_START_CMD", "value": command}]}
    overrides = Overrides(cluster={TEMP_DIR: annotation} if annotation else {})
    assert temp_dir(ray, overrides=overrides) == (root, "")


@pytest.mark.parametrize("path", ["$HOME/ray", "`pwd`", "relative"])
def test_root_that_cannot_be_known_is_told(path: str) -> None:
    """A shell makes the path; the annotation helps."""
    root, warning = temp_dir({"args": [f"ray start --temp-dir={path}"]}, overrides=Overrides())
    assert root == "/tmp/ray"
    assert TEMP_DIR in warning
    assert len(warning) <= 120
