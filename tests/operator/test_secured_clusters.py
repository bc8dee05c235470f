"""Ray with tokens, with mutual TLS, with its tables in Redis."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.waiting import eventually
from tests.operator.pods import COLLECTOR, Pod, Space, env, mounts

pytestmark = pytest.mark.kube


def variable(container: dict[str, Any], name: str) -> dict[str, Any]:
    """A variable as it stands in a container."""
    (found,) = (each for each in container["env"] if each["name"] == name)
    return dict(found)


def test_the_collector_has_rays_token(space: Space) -> None:
    """From the Secret that KubeRay made, as Ray has it."""
    space.apply("auth-token")
    for pod in space.ray_pods("head", "worker"):
        assert env(pod.collector)["RAY_AUTH_MODE"] == "token"
        token = variable(pod.collector, "RAY_AUTH_TOKEN")
        assert token == variable(pod.ray, "RAY_AUTH_TOKEN")
        assert token["valueFrom"]["secretKeyRef"]["name"] == "guarded"


def test_an_account_that_ray_trusts_is_kept(space: Space) -> None:
    """It is the pods' identity towards Ray; the collector has the same token."""
    space.apply("auth-kubernetes")
    for pod in space.ray_pods("head", "worker"):
        assert pod.is_injected
        assert pod.spec["serviceAccountName"] == "trusted-by-ray"
        assert env(pod.collector)["RAY_ENABLE_K8S_TOKEN_AUTH"] == "true"
        path = "/var/run/secrets/ray.io/serviceaccount"
        assert mounts(pod.collector)[path] == mounts(pod.ray)[path]
    assert not space.exists("ServiceAccount", "ray-historyserver-guarded")


def test_the_collector_has_rays_certificate(space: Space) -> None:
    """Variables and volumes, read-only; it starts after the pod's certificate is made."""
    space.apply("mutual-tls")
    for pod in space.ray_pods("head", "worker"):
        told, ray = env(pod.collector), env(pod.ray)
        names = [name for name in ray if name.startswith(("RAY_USE_TLS", "RAY_TLS_"))]
        assert {name: told[name] for name in names} == {name: ray[name] for name in names}
        assert len(names) == 4
        for path in ("/etc/ca/tls", "/etc/ray/tls"):
            (mount,) = (m for m in pod.collector["volumeMounts"] if m["mountPath"] == path)
            assert (mount["name"], mount["readOnly"]) == (mounts(pod.ray)[path], True)
        inits = [each["name"] for each in pod.spec["initContainers"]]
        assert (inits[0], inits[-1]) == ("certificate", COLLECTOR) or pod.node_type == "worker"
        assert inits[-1] == COLLECTOR


def test_the_cleanup_of_redis_is_left_alone(space: Space) -> None:
    """A Job made from the head's template, with the labels of a Ray pod."""
    space.apply("fault-tolerance")
    (head,) = space.ray_pods("head")
    assert head.is_injected
    space.admin.delete(space.at("RayCluster", "durable"))

    def cleanups() -> list[Pod]:
        pods = [Pod(each) for each in space.all("Pod")]
        return [pod for pod in pods if pod.node_type == "redis-cleanup"]

    (cleanup,) = eventually("the cleanup's pod", cleanups)
    assert not cleanup.is_injected
    assert cleanup.container_names == ["ray-head"]
    assert "lifecycle" not in cleanup.ray
    assert cleanup.spec["serviceAccountName"] == "default"
