"""The webhook's parts under an account with given rights, on a real API server."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.cluster.apiserver import ApiServer
from tests.cluster.client import Client, RefusedError
from tests.webhook.kube.real.objects import (
    AUTOSCALER_ROLE,
    AUTOSCALER_RULES,
    INJECT,
    ROLES,
    install_rayclusters,
    make_node,
)
from tests.webhook.kube.rights import Rule, rights
from webhook.decisions import decide
from webhook.kube.client import Api, connect
from webhook.kube.parts import KubeParts, kube_parts
from webhook.settings import Kubernetes, ServiceAccount, Settings

Start = Callable[..., KubeParts]

ALL_RIGHTS = rights(
    detects_sidecars=True,
    makes_accounts=True,
    reports=True,
    asks_for_claims=True,
    autoscaler_role=AUTOSCALER_ROLE,
)


@pytest.fixture
def admin(api_server: ApiServer) -> Client:
    """May do everything; the RayCluster's kind and the autoscaler's role are there."""
    client = api_server.admin()
    install_rayclusters(client)
    with suppress(RefusedError):
        client.post(ROLES, {"metadata": {"name": AUTOSCALER_ROLE}, "rules": AUTOSCALER_RULES})
    return client


@pytest.fixture
def namespace(api_server: ApiServer) -> str:
    """Labelled."""
    return api_server.namespace(labels={INJECT: "enabled"})


def webhook_settings(kubeconfig: Path) -> Settings:
    """Everything on."""
    return Settings(
        kubernetes=Kubernetes(kubeconfig=str(kubeconfig), report_every_s=0.5),
        service_account=ServiceAccount(autoscaler_cluster_role=AUTOSCALER_ROLE),
    )


@pytest.fixture
def start(api_server: ApiServer, namespace: str, registry: CollectorRegistry) -> Iterator[Start]:
    """Starts the parts under an account with the given rights."""
    started: list[KubeParts] = []

    def begin(
        rules: list[Rule] = ALL_RIGHTS,
        *,
        registry: CollectorRegistry = registry,
        watched: Callable[[Api], None] = lambda _: None,
    ) -> KubeParts:
        name = f"webhook-{secrets.token_hex(3)}"
        account = api_server.account(name, namespace=namespace, cluster_rules=rules)
        api = connect(str(account.kubeconfig))
        watched(api)
        parts = kube_parts(
            webhook_settings(account.kubeconfig), registry=registry, decide=decide, api=api
        )
        started.append(parts)
        parts.start()
        return parts

    yield begin
    for parts in started:
        parts.stop()
    for parts in started:
        parts.join(10)


@pytest.fixture
def node(admin: Client) -> Iterator[str]:
    """A node with a kubelet as new as the server."""
    name = f"node-{secrets.token_hex(3)}"
    make_node(admin, name, "v1.34.4")
    yield name
    admin.delete(f"/api/v1/nodes/{name}")
