"""Values of the chart that change what is put into pods, or who may use it."""

from __future__ import annotations

import pytest

from tests.cluster.client import RefusedError
from tests.harness.waiting import eventually
from tests.operator.conftest import Install
from tests.operator.platform import Platform
from tests.operator.pods import COLLECTOR, new_space

pytestmark = pytest.mark.kube


def test_a_fixed_account(platform: Platform, install: Install) -> None:
    """One that cloud roles know by its name; pods of namespaces without it are left alone."""
    release = install(
        "collector.serviceAccount.mode=fixed", "collector.serviceAccount.name=ray-history"
    )
    space = new_space(platform, label=release.label)
    space.apply("cluster", name="early")
    assert {pod.spec["serviceAccountName"] for pod in space.pods(3)} == {"default"}
    space.make({"kind": "ServiceAccount", "metadata": {"name": "ray-history"}})
    space.apply("cluster", name="late")
    pods = space.pods(3, cluster="late")
    assert {pod.spec["serviceAccountName"] for pod in pods} == {"ray-history"}
    assert all(pod.is_injected for pod in pods)


def test_accounts_are_left_alone(platform: Platform, install: Install) -> None:
    """The autoscaler's stays, too, and none is made."""
    release = install("collector.serviceAccount.mode=preserve")
    space = new_space(platform, label=release.label)
    space.apply("autoscaler-v2")
    pods = space.ray_pods("head", "worker")
    assert [pod.is_injected for pod in pods] == [True, True]
    assert [pod.spec["serviceAccountName"] for pod in pods] == ["scaled-v2", "default"]
    accounts = {each["metadata"]["name"] for each in space.all("ServiceAccount")}
    assert accounts == {"default", "scaled-v2"}


def test_a_classic_sidecar(platform: Platform, install: Install) -> None:
    """For clusters without native ones: the last of the containers, Ray still the first."""
    release = install("collector.mode=classic")
    space = new_space(platform, label=release.label)
    space.apply("job-sidecar")
    head, worker = space.ray_pods("head", "worker")
    names = [[each["name"] for each in pod.spec["containers"]] for pod in (head, worker)]
    assert names == [["ray-head", "ray-job-submitter", COLLECTOR], ["ray-worker", COLLECTOR]]
    assert head.is_injected


def test_a_guarded_prefix_lets_kuberay_work(platform: Platform, install: Install) -> None:
    """Only the webhook makes its accounts, only pods of the cluster run under them."""
    prefix = "guarded"
    release = install(
        "collector.serviceAccount.guardPrefix=true", f"collector.serviceAccount.prefix={prefix}"
    )
    space = new_space(platform, label=release.label)
    mine = {"kind": "ServiceAccount", "metadata": {"name": f"{prefix}-mine"}}

    def is_guarded() -> bool:
        try:
            space.make(mine)
        except RefusedError:
            return True
        space.admin.delete(space.at("ServiceAccount", f"{prefix}-mine"))
        return False

    eventually("the policy is in force", is_guarded)
    space.apply("autoscaler-v1")
    pods = space.ray_pods("head", "worker")
    account = f"{prefix}-scaled-v1"
    assert {pod.spec["serviceAccountName"] for pod in pods} == {account}
    with pytest.raises(RefusedError, match="Only the pods of a RayCluster"):
        space.make(_pod(account))
    with pytest.raises(RefusedError, match="are given to their pods only"):
        platform.server.existing_account(account, namespace=space.name)


def _pod(account: str) -> dict[str, object]:
    containers = [{"name": "c", "image": "busybox:1"}]
    spec = {"serviceAccountName": account, "containers": containers}
    return {"kind": "Pod", "metadata": {"name": "thief"}, "spec": spec}
