"""The settings: one table, which feeds file, flags, environment and docs.

A setting is a field. `leaf_days` is `leafDays` in the YAML file, `--leaf-days` as a flag and
`CERTS_LEAF_DAYS` in the environment.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from certs.state import Policy

_Label = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
Label = Annotated[str, Meta(pattern=rf"^({_Label})?$")]
"""An RFC 1123 label, or empty."""
ObjectName = Annotated[str, Meta(pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$")]
"""The name of an object, or empty."""
Port = Annotated[int, Meta(ge=1, le=65535)]


def _kubernetes_name(name: str) -> str:
    """`publish_s` is `publishSeconds` in files, as Kubernetes spells it."""
    head, *rest = re.sub(r"_s$", "_seconds", name).split("_")
    return head + "".join(part.capitalize() for part in rest)


class Settings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=_kubernetes_name
):
    """All settings. Frozen: built once, passed down."""

    namespace: Annotated[
        Label, Meta(description="Namespace of Secret, Lease and Service. Required.")
    ] = ""
    service: Annotated[
        Label, Meta(description="The webhook's Service, for which the leaf is valid. Required.")
    ] = ""
    secret: Annotated[ObjectName, Meta(description="Secret in which all is kept. Required.")] = ""
    configurations: Annotated[
        tuple[str, ...],
        Meta(description="MutatingWebhookConfigurations that get the CA. Required."),
    ] = ()
    lease: Annotated[
        ObjectName, Meta(description="Lease that says who leads. Default: SERVICE-certs.")
    ] = ""
    directory: Annotated[
        str, Meta(min_length=1, description="Where tls.crt and tls.key are written.")
    ] = "/tls"
    create_secret: Annotated[
        bool, Meta(description="Make the Secret when it is missing; else the chart owns it.")
    ] = False
    cluster_domain: Annotated[
        str, Meta(min_length=1, description="Domain of the cluster's services.")
    ] = "cluster.local"
    extra_names: Annotated[
        tuple[str, ...], Meta(description="More names or addresses for which the leaf is valid.")
    ] = ()
    leaf_days: Annotated[int, Meta(ge=1, le=30, description="Life of the leaf in days.")] = 14
    ca_days: Annotated[int, Meta(ge=90, le=1095, description="Life of the CA in days.")] = 365
    publish_s: Annotated[
        int,
        Meta(ge=10, le=86400, description="So long a new CA is trusted before it signs."),
    ] = 300
    remove_s: Annotated[
        int,
        Meta(ge=10, le=864000, description="So long an old CA is trusted after it signed last."),
    ] = 3600
    skew_s: Annotated[
        int,
        Meta(ge=0, le=3600, description="How far clocks of replicas may be apart; added to waits."),
    ] = 600
    check_every_s: Annotated[
        float, Meta(gt=0, le=60, description="How often everything is looked at.")
    ] = 5.0
    lease_s: Annotated[
        int,
        Meta(ge=5, le=600, description="After so long without news of it, a leader is replaced."),
    ] = 30
    request_timeout_s: Annotated[
        float, Meta(gt=0, le=60, description="Longest call to the API server.")
    ] = 5.0
    kubeconfig: Annotated[str, Meta(description="Outside a cluster: its file. Inside: empty.")] = ""
    address: Annotated[str, Meta(min_length=1, description="Address of the health port.")] = (
        "127.0.0.1"
    )
    health_port: Annotated[
        Port, Meta(description="Port of /healthz, /readyz and /metrics (plain HTTP).")
    ] = 9081
    log_level: Annotated[
        str, Meta(pattern="^(debug|info|warning|error)$", description="Least level that is logged.")
    ] = "info"

    @property
    def names(self) -> frozenset[str]:
        """What the leaf is valid for."""
        short = f"{self.service}.{self.namespace}.svc"
        return frozenset([short, f"{short}.{self.cluster_domain}", *self.extra_names])

    @property
    def policy(self) -> Policy:
        """Lives and waits."""
        return Policy(
            names=self.names,
            authority_life=timedelta(days=self.ca_days),
            leaf_life=timedelta(days=self.leaf_days),
            publish=timedelta(seconds=self.publish_s),
            remove=timedelta(seconds=self.remove_s),
            skew=timedelta(seconds=self.skew_s),
        )

    @property
    def lease_name(self) -> str:
        """The Lease in use."""
        return self.lease or f"{self.service}-certs"
