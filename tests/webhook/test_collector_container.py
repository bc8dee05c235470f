"""The container that is added: where, with what name, rights, credentials and environment."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.webhook.samples import CLUSTER, RRSA, SETTINGS, facts, sample
from webhook.decisions import Reason
from webhook.facts import ClusterFacts
from webhook.overrides import SIDECAR_MODE
from webhook.patches import Patched, PatchRefusedError, patched
from webhook.patches.sidecar import classic_name
from webhook.settings import Collector, EnvVar, HostNetworkPolicy, Settings, SidecarMode

HEAD = "kuberay-1.6-head"


def with_collector(**changes: Any) -> Settings:
    """The settings of the tests, with other values for the collector."""
    return msgspec.structs.replace(
        SETTINGS, collector=msgspec.structs.replace(SETTINGS.collector, **changes)
    )


def collector_of(result: Patched) -> dict[str, Any]:
    """Our container."""
    field = "initContainers" if result.mode == "native" else "containers"
    found = result.pod["spec"][field][-1]
    assert isinstance(found, dict)
    return found


def added(
    pod: dict[str, Any] | str = HEAD, *, settings: Settings = SETTINGS, **said: Any
) -> dict[str, Any]:
    """Our container in a pod."""
    pod = sample(pod) if isinstance(pod, str) else pod
    return collector_of(patched(pod, facts=facts(**said), settings=settings))


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    """Values, or sources, by name."""
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


@pytest.mark.parametrize(
    ("setting", "able", "wish", "mode"),
    [
        (SidecarMode.AUTO, True, "", "native"),
        (SidecarMode.AUTO, False, "", "classic"),
        (SidecarMode.NATIVE, False, "", "native"),
        (SidecarMode.CLASSIC, True, "", "classic"),
        (SidecarMode.AUTO, True, "classic", "classic"),
        (SidecarMode.CLASSIC, True, "native", "native"),
        (SidecarMode.AUTO, False, "native", "classic"),
        (SidecarMode.AUTO, True, "both", "native"),
    ],
)
def test_mode_is_what_the_kubelets_can_run(
    setting: SidecarMode, able: bool, wish: str, mode: str
) -> None:
    """An old kubelet would run a native sidecar to its end before Ray: that is, for ever."""
    pod = sample(HEAD)
    if wish:
        pod["metadata"]["annotations"][SIDECAR_MODE] = wish
    result = patched(
        pod, facts=facts("native" if able else "classic"), settings=with_collector(mode=setting)
    )
    assert result.mode == mode
    assert bool(result.warnings) == ((wish, able) in (("native", False), ("both", True)))


@pytest.mark.parametrize(
    ("ray", "name"),
    [
        ("ray-head", "rayhs-collector"),
        ("worker", "zrayhs-collector"),
        ("zz", "zzrayhs-collector"),
        ("rayhs-collector", "zrayhs-collector"),
    ],
)
def test_classic_name_sorts_behind_rays(ray: str, name: str) -> None:
    """The kubelet sorts statuses by name, and Ray's autoscaler reads the first."""
    found = classic_name("rayhs-collector", ray_name=ray)
    assert found == name
    assert found > ray


def test_longest_names_end() -> None:
    """No name is longer than 63, whatever Ray's container is called."""
    assert len(classic_name("rayhs-collector", ray_name="z" * 63)) <= 63


def test_taken_names_are_refused_in_the_patch_too() -> None:
    """The name that classic mode chooses, and volumes of ours that are something else."""
    pod = sample(HEAD)
    pod["spec"]["containers"][0]["name"] = "worker"
    pod["spec"]["containers"].append({"name": "zrayhs-collector", "image": "x"})
    with pytest.raises(PatchRefusedError, match="container zrayhs-collector") as refused:
        patched(pod, facts=facts("classic"), settings=SETTINGS)
    assert refused.value.reason is Reason.NAME_TAKEN
    pod = sample(HEAD)
    pod["spec"]["volumes"].append({"name": "rayhs-storage", "emptyDir": {}})
    with pytest.raises(PatchRefusedError, match="volume rayhs-storage"):
        patched(pod, facts=facts(), settings=SETTINGS)
    pod["spec"]["volumes"][-1] = dict(SETTINGS.collector.volumes[0])
    assert patched(pod, facts=facts(), settings=SETTINGS).operations


def test_ports_avoid_what_the_pod_uses() -> None:
    """What containers declare, and the options of `ray start`."""
    pod = sample(HEAD)
    pod["spec"]["containers"][0]["args"][0] += " --worker-port-list=1 --ray-client-server-port=8084"
    pod["spec"]["containers"].append({"name": "x", "ports": [{"containerPort": 8085}]})
    result = patched(pod, facts=facts(), settings=SETTINGS)
    container = collector_of(result)
    assert result.events_port == 8086
    assert env_of(container)["EVENTS_PORT"] == "8086"
    assert env_of(container)["METRICS_PORT"] == "8087"
    assert container["ports"] == [
        {"name": "rayhs-metrics", "containerPort": 8087, "protocol": "TCP"}
    ]


def test_no_free_port_is_refused() -> None:
    """Sixteen are tried."""
    pod = sample(HEAD)
    ports = [{"containerPort": port} for port in range(8084, 8100)]
    pod["spec"]["containers"].append({"name": "x", "ports": ports})
    with pytest.raises(PatchRefusedError, match="8084") as refused:
        patched(pod, facts=facts(), settings=SETTINGS)
    assert refused.value.reason is Reason.NO_FREE_PORT


def test_on_the_nodes_network_nothing_is_declared() -> None:
    """A containerPort would become a hostPort, and two Ray pods could not share a node."""
    for policy in (HostNetworkPolicy.LOGS_ONLY, HostNetworkPolicy.INJECT):
        container = added("user-host-network", settings=with_collector(host_network=policy))
        assert "ports" not in container
        assert env_of(container)["METRICS_PORT"] == "0"
        assert "METRICS_ADDRESS" not in env_of(container)
        assert ("EVENTS_PORT" in env_of(container)) == (policy is HostNetworkPolicy.INJECT)


def test_token_authentication_is_copied_verbatim() -> None:
    """With the Secret, and with Kubernetes tokens and their mount."""
    secret = env_of(added("kuberay-1.5-head-token-auth"))
    assert secret["RAY_AUTH_MODE"] == "token"
    assert secret["RAY_AUTH_TOKEN"] == {"secretKeyRef": {"key": "auth_token", "name": "demo"}}
    tokens = added("kuberay-1.7-head-kubernetes-token")
    assert env_of(tokens)["RAY_ENABLE_K8S_TOKEN_AUTH"] == "true"
    mount = {
        "name": "ray-token",
        "mountPath": "/var/run/secrets/ray.io/serviceaccount",
        "readOnly": True,
    }
    assert mount in tokens["volumeMounts"]


def test_token_file_of_the_user_is_mounted() -> None:
    """RAY_AUTH_TOKEN_PATH, whatever volume holds it."""
    pod = sample(HEAD)
    ray = pod["spec"]["containers"][0]
    ray["env"].append({"name": "RAY_AUTH_TOKEN_PATH", "value": "/etc/tokens/ray/token"})
    ray["volumeMounts"].append({"name": "t", "mountPath": "/etc/tokens/"})
    ray["volumeMounts"].append({"name": "u", "mountPath": "/etc/token"})
    pod["spec"]["volumes"] += [{"name": name, "secret": {"secretName": "s"}} for name in "tu"]
    mounts = added(pod)["volumeMounts"]
    assert [each["mountPath"] for each in mounts if each["name"] in "tu"] == ["/etc/tokens/"]


def test_certificates_of_mutual_tls_are_mounted() -> None:
    """Read-only, with their variables."""
    for name in ("kuberay-1.7-head-mtls", "kuberay-1.7-worker-mtls"):
        container = added(name)
        assert {"name": "ray-tls", "mountPath": "/etc/ray/tls", "readOnly": True} in container[
            "volumeMounts"
        ]
        assert env_of(container)["RAY_TLS_CA_CERT"] == "/etc/ray/tls/ca.crt"


def test_nothing_else_of_ray_is_copied() -> None:
    """User code's secrets stay with user code."""
    pod = sample(HEAD)
    pod["spec"]["containers"][0]["env"].append({"name": "PASSWORD", "value": "x"})
    assert "PASSWORD" not in env_of(added(pod))


def test_cloud_role_is_the_collectors_alone() -> None:
    """Alibaba Cloud's documented form; Ray's container gets nothing of it."""
    settings = msgspec.structs.replace(SETTINGS, rrsa=RRSA)
    result = patched(sample(HEAD), facts=facts(), settings=settings)
    container, env = collector_of(result), env_of(collector_of(result))
    assert env["ALIBABA_CLOUD_ROLE_ARN"] == RRSA.role_arn
    assert env["ALIBABA_CLOUD_OIDC_PROVIDER_ARN"] == RRSA.provider_arn
    folder = "/var/run/secrets/ack.alibabacloud.com/rrsa-tokens"
    assert env["ALIBABA_CLOUD_OIDC_TOKEN_FILE"] == f"{folder}/token"
    assert {"name": "rrsa-oidc-token", "mountPath": folder, "readOnly": True} in container[
        "volumeMounts"
    ]
    token = {"audience": "sts.aliyuncs.com", "expirationSeconds": 3600, "path": "token"}
    volume = {"defaultMode": 420, "sources": [{"serviceAccountToken": token}]}
    assert {"name": "rrsa-oidc-token", "projected": volume} in result.pod["spec"]["volumes"]
    assert "ALIBABA" not in str(result.pod["spec"]["containers"][0])


def test_token_volume_of_another_webhook_is_left() -> None:
    """Container Service's own webhook may have been first."""
    pod = sample(HEAD)
    theirs = {"name": "rrsa-oidc-token", "projected": {"sources": []}}
    pod["spec"]["volumes"].append(theirs)
    result = patched(pod, facts=facts(), settings=msgspec.structs.replace(SETTINGS, rrsa=RRSA))
    assert [
        each for each in result.pod["spec"]["volumes"] if each["name"] == "rrsa-oidc-token"
    ] == [theirs]


@pytest.mark.parametrize(
    ("container", "pod", "setting", "user"),
    [
        ({}, {}, 1000, 1000),
        ({}, {}, None, None),
        ({"runAsUser": 2000}, {"runAsUser": 3000}, 1000, 2000),
        ({}, {"runAsUser": 3000}, 1000, None),
        ({"runAsUser": 0}, {}, 1500, 1500),
        ({"runAsUser": 0}, {"runAsUser": 3000}, None, 1000),
        ({}, {"runAsUser": 0}, None, 1000),
    ],
)
def test_user_is_rays_and_never_root(
    container: dict[str, int], pod: dict[str, int], setting: int | None, user: int | None
) -> None:
    """None leaves the pod's, or what the cluster assigns."""
    made = sample(HEAD)
    made["spec"]["containers"][0]["securityContext"] = container
    made["spec"]["securityContext"] = pod
    assert (
        added(made, settings=with_collector(run_as_user=setting))["securityContext"].get(
            "runAsUser"
        )
        == user
    )


def test_group_and_selinux_level_are_rays() -> None:
    """The level is on the shared files."""
    pod = sample(HEAD)
    own = {"runAsGroup": 5, "seLinuxOptions": {"level": "s0:c1,c2"}, "privileged": True}
    pod["spec"]["containers"][0]["securityContext"] = own
    context = added(pod)["securityContext"]
    assert context["runAsGroup"] == 5
    assert context["seLinuxOptions"] == {"level": "s0:c1,c2"}
    assert "privileged" not in context


def test_owner_is_told_where_there_is_one() -> None:
    """Of a RayJob's or RayService's cluster."""
    owned = ClusterFacts("default", "demo", CLUSTER.uid, {}, "rayjob", "train")
    env = env_of(added(cluster=owned))
    assert (env["OWNER_KIND"], env["OWNER_NAME"]) == ("rayjob", "train")
    assert "OWNER_KIND" not in env_of(added())


def test_worker_is_told_the_heads_address() -> None:
    """Ray's own value; without one, the service that KubeRay makes, where its name is not cut."""
    assert (
        env_of(added("kuberay-1.6-worker"))["FQ_RAY_IP"]
        == "demo-head-svc.default.svc.cluster.local"
    )
    pod = sample("kuberay-1.6-worker")
    pod["spec"]["containers"][0]["env"] = []
    assert env_of(added(pod))["FQ_RAY_IP"] == "demo-head-svc.default.svc"
    long = ClusterFacts("default", "c" * 50, "u")
    assert "FQ_RAY_IP" not in env_of(added(pod, cluster=long))
    assert "FQ_RAY_IP" not in env_of(added(HEAD))


def test_settings_add_to_the_environment_but_do_not_rename_the_collector() -> None:
    """Each name once; identity and ports are the webhook's."""
    env = (
        EnvVar(name="GRACE_PERIOD", value="10s"),
        EnvVar(name="RAY_ROLE", value="Boss"),
        EnvVar(name="EVENTS_PORT", value="1"),
        EnvVar(name="KEY", value_from={"secretKeyRef": {"name": "s", "key": "k"}}),
        EnvVar(name="EMPTY"),
    )
    container = added(settings=with_collector(env=env, args=("--log-level=debug",)))
    found = env_of(container)
    assert (found["GRACE_PERIOD"], found["RAY_ROLE"], found["EVENTS_PORT"]) == (
        "10s",
        "Head",
        "8084",
    )
    assert found["KEY"] == {"secretKeyRef": {"name": "s", "key": "k"}}
    assert found["EMPTY"] == ""
    assert container["args"] == ["--log-level=debug"]


def test_defaults_of_the_settings_are_enough() -> None:
    """An image is all that must be said."""
    container = added(settings=Settings(collector=Collector(image="a")))
    assert container["image"] == "a"
    assert "args" not in container
