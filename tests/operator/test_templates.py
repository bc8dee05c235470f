"""Pod templates as users have them: hooks, networks, hosts, commands, other collectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.operator.platform import Platform
from tests.operator.pods import COLLECTOR, Pod, env, new_space

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def groups(platform: Platform, release: object) -> Iterator[Mapping[str, Sequence[Pod]]]:
    """The pods of one RayCluster, by group."""
    del release
    space = new_space(platform)
    space.apply("hooks-and-hosts")
    pods = space.pods(6)
    groups = {pod.labels["ray.io/group"] for pod in pods}
    yield {group: [pod for pod in pods if pod.labels["ray.io/group"] == group] for group in groups}
    space.admin.delete(space.at("RayCluster", "various"))


def test_a_hook_of_the_user_runs_after_ours(groups: Mapping[str, Sequence[Pod]]) -> None:
    """Ours in the background, the user's command unchanged; so is every other container."""
    (head,) = groups["headgroup"]
    command = head.ray["lifecycle"]["postStart"]["exec"]["command"]
    assert command[-3:] == ["/bin/sh", "-c", "echo hello"]
    assert len(command) > 3
    assert [each["name"] for each in head.spec["containers"]] == ["anything", "aside"]
    assert "lifecycle" not in head.container("aside")


def test_the_account_has_the_users_pull_secrets(
    groups: Mapping[str, Sequence[Pod]], platform: Platform
) -> None:
    """Of the pod: images are pulled as before."""
    (head,) = groups["headgroup"]
    assert head.spec["imagePullSecrets"] == [{"name": "registry"}]
    at = f"/api/v1/namespaces/{head.object['metadata']['namespace']}/serviceaccounts"
    account = platform.admin.get(f"{at}/{head.spec['serviceAccountName']}")
    assert account["imagePullSecrets"] == [{"name": "registry"}]


def test_a_head_service_of_another_name_is_used(groups: Mapping[str, Sequence[Pod]]) -> None:
    """As KubeRay tells Ray."""
    for pods in groups.values():
        for pod in pods:
            if pod.node_type == "worker" and pod.is_injected:
                address = env(pod.collector)["FQ_RAY_IP"]
                assert address.startswith("door.")


def test_pods_on_their_nodes_network_collect_logs_only(
    groups: Mapping[str, Sequence[Pod]],
) -> None:
    """The node's ports are shared: none is opened, and none is declared."""
    (pod,) = groups["node-network"]
    assert env(pod.collector)["ENABLE_EVENT_COLLECTOR"] == "false"
    assert "ports" not in pod.collector
    assert "RAY_enable_ray_event" not in env(pod.ray)


def test_every_host_of_a_replica_has_a_collector(groups: Mapping[str, Sequence[Pod]]) -> None:
    """As with TPU slices."""
    assert [pod.is_injected for pod in groups["several-hosts"]] == [True, True]


def test_a_collector_of_the_user_is_kept(groups: Mapping[str, Sequence[Pod]]) -> None:
    """There are no two."""
    (pod,) = groups["own-collector"]
    assert not pod.is_injected
    assert pod.container_names == ["wait-gcs-ready", "ray", "collector"]


def test_a_command_of_the_user_is_read(groups: Mapping[str, Sequence[Pod]]) -> None:
    """And never written."""
    (pod,) = groups["own-command"]
    assert env(pod.collector)["RAY_TMP_ROOT"] == "/scratch"
    assert pod.ray["command"] == ["/bin/bash", "-c"]
    assert pod.ray["args"][0].startswith("ulimit -n 1000; ray start")
    assert pod.container_names[-2:] == [COLLECTOR, "ray"]
