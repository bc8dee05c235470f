"""Pods as KubeRay's operators and users make them, and the facts about their cluster.

The files of `samples/` are as the API server sends them to a webhook: with its defaults, and
with what Kubernetes' own ServiceAccount admission added.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from webhook.facts import ClusterFacts, NamespaceFacts, PodFacts
from webhook.settings import Collector, EnvVar, Rrsa, Settings

FOLDER = Path(__file__).with_name("samples")
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
MODES = ("native", "classic")

SETTINGS = Settings(
    collector=Collector(
        image="registry.example/ray-history-collector:1",
        env=(
            EnvVar(name="STORAGE_BACKEND", value="local"),
            EnvVar(name="STORAGE_LOCAL_DIR", value="/storage"),
        ),
        volumes=({"name": "rayhs-storage", "persistentVolumeClaim": {"claimName": "history"}},),
        volume_mounts=({"name": "rayhs-storage", "mountPath": "/storage"},),
    )
)
RRSA = Rrsa(
    enabled=True,
    role_arn="acs:ram::1234567890:role/history",
    provider_arn="acs:ram::1234567890:oidc-provider/ack-rrsa-c1",
)
LABELLED = NamespaceFacts("default", {"rayhistory.io/inject": "enabled"})
PLAIN = NamespaceFacts("default")
CLUSTER = ClusterFacts(namespace="default", name="demo", uid="7d2f9c1e-1111-4222-8333-444455556666")


@cache
def _text(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text()


def sample(name: str) -> dict[str, Any]:
    """A fresh copy of a sample."""
    pod = yaml.load(_text(name), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    assert isinstance(pod, dict)
    return pod


def facts(
    mode: str = "native", *, cluster: ClusterFacts = CLUSTER, service_account: str = ""
) -> PodFacts:
    """Facts for `patched`."""
    return PodFacts(
        namespace="default",
        cluster=cluster,
        native_sidecars=mode == "native",
        service_account=service_account,
    )
