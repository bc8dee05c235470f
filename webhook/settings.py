"""The webhook's settings: one table, which feeds the file, flags, environment, chart and docs.

A setting is a field of these structs. Its path (`collector.image`) is its place in the YAML
file, its flag (`--collector-image`) and its environment name (`WEBHOOK_COLLECTOR_IMAGE`).
Unknown names and wrong values are errors at start. Frozen: built once, passed down.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

INJECT = "rayhistory.io/inject"
"""Label of namespaces (`enabled`/`disabled`), annotation of pods and clusters (`true`/`false`)."""

ACK_ANNOTATION = "ray.alibabacloud.com/enable-historyserver"
"""The annotation by which Container Service for Kubernetes turns its history server on."""

Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
"""An RFC 1123 label: the name of a container, volume or ServiceAccount prefix."""
Port = Annotated[int, Meta(ge=1, le=65535)]


class SidecarMode(StrEnum):
    """How the collector is put into a pod."""

    AUTO = "auto"
    """Native where API server and every schedulable node's kubelet are 1.29 or newer."""
    NATIVE = "native"
    CLASSIC = "classic"


class HookPolicy(StrEnum):
    """What happens to a postStart hook that the pod already has."""

    MERGE = "merge"
    OVERRIDE = "override"
    """As Container Service for Kubernetes does."""
    SKIP = "skip"


class HostNetworkPolicy(StrEnum):
    """What a pod on the node's network gets: its ports are shared with the node's other pods."""

    LOGS_ONLY = "logsOnly"
    INJECT = "inject"
    SKIP = "skip"


class ForeignSinkPolicy(StrEnum):
    """What a pod gets whose Ray already sends its events elsewhere."""

    LOGS_ONLY = "logsOnly"
    SKIP = "skip"


class AccountMode(StrEnum):
    """Under which ServiceAccount an injected pod runs."""

    PER_CLUSTER = "perCluster"
    """`PREFIX-RAYCLUSTER`, made when it is missing."""
    FIXED = "fixed"
    PRESERVE = "preserve"


class FailureMode(StrEnum):
    """What an internal error does to a pod of a labelled namespace."""

    ADMIT = "admit"
    REFUSE = "refuse"


def _kubernetes_name(name: str) -> str:
    """`grace_period_s` is `gracePeriodSeconds` in files, as Kubernetes spells it."""
    head, *rest = re.sub(r"_s$", "_seconds", name).split("_")
    return head + "".join(part.capitalize() for part in rest)


class _Table(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename=_kubernetes_name,
):
    """Base of the tables: names as in Kubernetes, unknown ones refused."""


class EnvVar(_Table, frozen=True):
    """One environment variable of the collector, as in a container: a value or a source."""

    name: Annotated[str, Meta(min_length=1)]
    value: str = ""
    value_from: dict[str, Any] | None = None


class Listen(_Table, frozen=True):
    """Where the webhook listens."""

    address: Annotated[str, Meta(description="Address of all ports.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Port of the admission reviews (TLS).")] = 9443
    health_port: Annotated[
        Port, Meta(description="Port of /healthz, /readyz and /metrics (plain HTTP).")
    ] = 9080
    threads: Annotated[int, Meta(ge=1, le=256, description="Threads that answer reviews.")] = 16
    keepalive_s: Annotated[
        int, Meta(ge=1, description="Idle time of a connection; longer than the API server's 90 s.")
    ] = 120
    drain_s: Annotated[
        float,
        Meta(
            ge=0,
            le=60,
            description="Time after SIGTERM in which connections are still taken; /readyz says no.",
        ),
    ] = 10.0
    stop_timeout_s: Annotated[
        int, Meta(ge=1, description="Time for running reviews after that.")
    ] = 10
    max_review_bytes: Annotated[
        int, Meta(ge=65536, description="Reviews above this size are admitted unpatched.")
    ] = 3 * 1024 * 1024


class Tls(_Table, frozen=True):
    """The serving certificate, read again when it changes."""

    cert_file: Annotated[str, Meta(description="PEM file of the certificate chain.")] = (
        "/tls/tls.crt"
    )
    key_file: Annotated[str, Meta(description="PEM file of its key.")] = "/tls/tls.key"
    reload_every_s: Annotated[
        float, Meta(gt=0, description="How often the files are looked at.")
    ] = 10.0


class Scope(_Table, frozen=True):
    """Which pods are meant."""

    label: Annotated[
        str, Meta(min_length=1, description="Namespace label and annotation name.")
    ] = INJECT
    excluded_namespaces: Annotated[
        tuple[str, ...], Meta(description="Namespaces that never get a collector.")
    ] = ("kube-system", "kube-public", "kube-node-lease")
    on_error: Annotated[
        FailureMode,
        Meta(description="What an internal error does to a pod of a labelled namespace."),
    ] = FailureMode.ADMIT


class Resources(_Table, frozen=True):
    """Requests and limits of the collector, as quantities."""

    requests: Annotated[dict[str, str], Meta(description="Requests of the collector.")] = (
        msgspec.field(
            default_factory=lambda: {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "64Mi"}
        )
    )
    limits: Annotated[dict[str, str], Meta(description="Limits of the collector.")] = msgspec.field(
        default_factory=lambda: {"cpu": "500m", "memory": "256Mi", "ephemeral-storage": "4Gi"}
    )


class Collector(_Table, frozen=True):
    """The container that is added."""

    image: Annotated[str, Meta(description="Image of the collector. Required to serve.")] = ""
    image_pull_policy: Annotated[
        str, Meta(pattern="^(Always|IfNotPresent|Never)$", description="As in a container.")
    ] = "IfNotPresent"
    image_pull_secrets: Annotated[
        tuple[str, ...], Meta(description="Secrets in the pod's namespace, added to the pod.")
    ] = ()
    container_name: Annotated[Name, Meta(description="Name of the container.")] = "rayhs-collector"
    mode: Annotated[SidecarMode, Meta(description="Native sidecar or ordinary container.")] = (
        SidecarMode.AUTO
    )
    events_port: Annotated[
        Port, Meta(description="First port tried for events; the next free one when taken.")
    ] = 8084
    run_as_user: Annotated[
        int | None, Meta(description="User where the pod names none; null lets the cluster choose.")
    ] = 1000
    grace_period_s: Annotated[
        int, Meta(ge=30, description="A pod's grace period is raised to this, never lowered.")
    ] = 120
    hook_policy: Annotated[
        HookPolicy, Meta(description="What a user's postStart hook becomes.")
    ] = HookPolicy.MERGE
    host_network: Annotated[HostNetworkPolicy, Meta(description="Pods on the node's network.")] = (
        HostNetworkPolicy.LOGS_ONLY
    )
    foreign_sink: Annotated[
        ForeignSinkPolicy, Meta(description="Pods whose Ray already sends its events elsewhere.")
    ] = ForeignSinkPolicy.LOGS_ONLY
    tmp_size_limit: Annotated[
        str,
        Meta(description="sizeLimit of an added volume on Ray's temporary folder; empty: none."),
    ] = ""
    resources: Resources = Resources()
    args: Annotated[tuple[str, ...], Meta(description="More arguments of the collector.")] = ()
    env: Annotated[
        tuple[EnvVar, ...], Meta(description="Environment of the collector: its storage settings.")
    ] = ()
    volumes: Annotated[
        tuple[dict[str, Any], ...], Meta(description="Volumes added to the pod for the collector.")
    ] = ()
    volume_mounts: Annotated[
        tuple[dict[str, Any], ...], Meta(description="Mounts of these volumes in the collector.")
    ] = ()


class ServiceAccount(_Table, frozen=True):
    """The account rule."""

    mode: Annotated[AccountMode, Meta(description="Under which account injected pods run.")] = (
        AccountMode.PER_CLUSTER
    )
    prefix: Annotated[Name, Meta(description="PREFIX of PREFIX-RAYCLUSTER.")] = "ray-historyserver"
    name: Annotated[str, Meta(description="The account of mode `fixed`.")] = ""
    labels: Annotated[dict[str, str], Meta(description="Labels of accounts that are made.")] = {}
    annotations: Annotated[
        dict[str, str], Meta(description="Annotations of accounts that are made: cloud identity.")
    ] = {}
    autoscaler_cluster_role: Annotated[
        str, Meta(description="ClusterRole that an autoscaler's account is bound to; empty: none.")
    ] = ""
    replace_under_token_auth: Annotated[
        bool, Meta(description="Replace the account though Ray checks it by Kubernetes tokens.")
    ] = False


class Rrsa(_Table, frozen=True):
    """A projected token for Alibaba Cloud's RAM roles, mounted in the collector only."""

    enabled: Annotated[bool, Meta(description="Mount the token in the collector.")] = False
    role_arn: Annotated[str, Meta(description="ARN of the RAM role.")] = ""
    provider_arn: Annotated[str, Meta(description="ARN of the cluster's OIDC provider.")] = ""
    audience: Annotated[str, Meta(description="Audience of the token.")] = "sts.aliyuncs.com"
    expiration_s: Annotated[int, Meta(ge=600, description="Life of the token.")] = 3600


class Kubernetes(_Table, frozen=True):
    """How the API server is asked."""

    kubeconfig: Annotated[str, Meta(description="Outside a cluster: its file. Inside: empty.")] = ""
    lookup_timeout_s: Annotated[
        float, Meta(gt=0, le=5, description="Longest look-up within one review.")
    ] = 1.5
    report_every_s: Annotated[
        float, Meta(ge=0, description="How often pods without a collector are reported; 0: never.")
    ] = 60.0


class Settings(_Table, frozen=True):
    """All settings."""

    listen: Listen = Listen()
    tls: Tls = Tls()
    scope: Scope = Scope()
    collector: Collector = Collector()
    service_account: ServiceAccount = ServiceAccount()
    rrsa: Rrsa = Rrsa()
    kubernetes: Kubernetes = Kubernetes()
    log_level: Annotated[
        str,
        Meta(pattern="^(debug|info|warning|error)$", description="Which messages are logged."),
    ] = "info"
