"""Accounts: made once, owned by their cluster, used as they are when somebody made them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.webhook.kube.api_double import Answer, ApiDouble, Asked, hangs, refusal
from tests.webhook.kube.conftest import Sample
from webhook.facts import ClusterFacts, LookupFailedError
from webhook.kube.accounts import KubeAccounts
from webhook.kube.client import Api, Bounds
from webhook.kube.metrics import KubeMetrics
from webhook.settings import ServiceAccount

ACCOUNTS = "/api/v1/namespaces/ns/serviceaccounts"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings"
NAME = "ray-historyserver-one"
CLUSTER = ClusterFacts(namespace="ns", name="one", uid="u1")
RULE = ServiceAccount(
    labels={"team": "a"},
    annotations={"pod-identity.alibabacloud.com/role-name": "history"},
    autoscaler_cluster_role="ray-autoscaler",
)

Ensure = Callable[..., None]


class Store:
    """Accounts and bindings as the API server keeps them."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}

    def __call__(self, asked: Asked) -> Answer | None:
        if not asked.path.startswith((ACCOUNTS, BINDINGS)):
            return None
        if asked.method == "GET":
            found = self.objects.get(asked.path)
            return Answer(200, found) if found else refusal(404, "NotFound", "not found")
        path = f"{asked.path}/{asked.body['metadata']['name']}"
        if path in self.objects:
            return refusal(409, "AlreadyExists", "already exists")
        self.objects[path] = asked.body
        return Answer(201, asked.body)


@pytest.fixture
def store(double: ApiDouble) -> Store:
    """Empty."""
    rule = Store()
    double.rules.append(rule)
    return rule


@pytest.fixture
def accounts(api: Api, metrics: KubeMetrics, store: Store) -> KubeAccounts:
    """With a second for all calls of one pod."""
    return KubeAccounts(api=api, rule=RULE, metrics=metrics, bounds=Bounds(1.0))


@pytest.fixture
def ensure(accounts: KubeAccounts) -> Ensure:
    """Asks for the account of the cluster."""

    def ask(cluster: ClusterFacts = CLUSTER, *, autoscaler: bool = False) -> None:
        accounts.ensure(
            name=NAME, cluster=cluster, pull_secrets=("mine", "ours"), autoscaler=autoscaler
        )

    return ask


def writes(double: ApiDouble) -> list[str]:
    """Paths of what was made."""
    return [one.path for one in double.asked if one.method == "POST"]


def test_makes_the_account_with_all_that_the_rule_says(store: Store, ensure: Ensure) -> None:
    """Owned by the RayCluster, so that a RayJob's clusters leave none behind."""
    ensure()
    assert store.objects == {
        f"{ACCOUNTS}/{NAME}": {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {
                "name": NAME,
                "namespace": "ns",
                "labels": {
                    "team": "a",
                    "app.kubernetes.io/managed-by": "ray-history-server",
                    "ray.io/cluster": "one",
                },
                "annotations": {"pod-identity.alibabacloud.com/role-name": "history"},
                "ownerReferences": [
                    {
                        "apiVersion": "ray.io/v1",
                        "kind": "RayCluster",
                        "name": "one",
                        "uid": "u1",
                        "controller": False,
                        "blockOwnerDeletion": False,
                    }
                ],
            },
            "imagePullSecrets": [{"name": "mine"}, {"name": "ours"}],
        }
    }


def test_an_autoscaler_gets_its_rights(store: Store, ensure: Ensure) -> None:
    """KubeRay bound them to the old account only (ray-project/kuberay#960)."""
    ensure(autoscaler=True)
    binding = store.objects[f"{BINDINGS}/{NAME}-autoscaler"]
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "ray-autoscaler",
    }
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": "ns"}]
    assert binding["metadata"]["ownerReferences"][0]["uid"] == "u1"


def test_no_binding_without_its_role(api: Api, metrics: KubeMetrics, store: Store) -> None:
    """The setting is empty by default."""
    accounts = KubeAccounts(api=api, rule=ServiceAccount(), metrics=metrics, bounds=Bounds(1.0))
    accounts.ensure(name=NAME, cluster=CLUSTER, pull_secrets=(), autoscaler=True)
    assert list(store.objects) == [f"{ACCOUNTS}/{NAME}"]
    assert "imagePullSecrets" not in store.objects[f"{ACCOUNTS}/{NAME}"]


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [{"kind": "RayCluster", "name": "one", "uid": "u1"}],
        [{"kind": "Deployment", "name": "x", "uid": "u7"}],
        [
            {"kind": "RayCluster", "name": "one", "uid": "gone"},
            {"kind": "Helm", "name": "x", "uid": "u7"},
        ],
    ],
)
def test_an_account_that_is_there_is_used_as_it_is(
    double: ApiDouble, store: Store, ensure: Ensure, owners: list[dict[str, str]], sample: Sample
) -> None:
    """An administrator made it, with rights of its own: nothing is written."""
    store.objects[f"{ACCOUNTS}/{NAME}"] = {"metadata": {"name": NAME, "ownerReferences": owners}}
    ensure()
    assert writes(double) == []
    assert sample("accounts_total", outcome="found") == 1


def test_a_known_account_costs_no_call(double: ApiDouble, ensure: Ensure, sample: Sample) -> None:
    """A hundred workers of one cluster."""
    ensure()
    asked = len(double.asked)
    for _ in range(5):
        ensure()
    assert len(double.asked) == asked
    assert sample("accounts_total", outcome="known") == 5
    ensure(autoscaler=True)
    assert writes(double)[-1] == BINDINGS


def test_what_is_known_is_forgotten_soon(
    double: ApiDouble, api: Api, metrics: KubeMetrics, store: Store
) -> None:
    """Somebody may delete the account."""
    now_s = 0.0
    accounts = KubeAccounts(
        api=api, rule=RULE, metrics=metrics, bounds=Bounds(1.0), clock=lambda: now_s
    )
    accounts.ensure(name=NAME, cluster=CLUSTER, pull_secrets=(), autoscaler=False)
    store.objects.clear()
    now_s = 31.0
    accounts.ensure(name=NAME, cluster=CLUSTER, pull_secrets=(), autoscaler=False)
    assert writes(double) == [ACCOUNTS, ACCOUNTS]


def test_two_replicas_at_once(double: ApiDouble, store: Store, ensure: Ensure) -> None:
    """The other was faster between our look and our making: 409 is fine."""

    def faster(asked: Asked) -> None:
        if asked.method == "POST":
            store.objects[f"{ACCOUNTS}/{NAME}"] = asked.body

    double.rules.insert(0, faster)
    ensure()
    assert [one.method for one in double.asked] == ["GET", "POST", "GET"]


def test_a_burst_of_pods_makes_one(double: ApiDouble, ensure: Ensure) -> None:
    """All wait for the one that makes it."""
    with ThreadPoolExecutor(16) as pool:
        for asking in [pool.submit(ensure) for _ in range(16)]:
            asking.result()
    assert writes(double) == [ACCOUNTS]


def test_waits_for_the_end_of_an_older_clusters_account(store: Store, ensure: Ensure) -> None:
    """A cluster made anew under its name: the garbage collector is about to take the account."""
    old = {"kind": "RayCluster", "name": "one", "uid": "u0"}
    store.objects[f"{ACCOUNTS}/{NAME}"] = {"metadata": {"name": NAME, "ownerReferences": [old]}}
    collector = threading.Timer(0.3, store.objects.clear)
    collector.start()
    ensure()
    collector.join()
    made = store.objects[f"{ACCOUNTS}/{NAME}"]["metadata"]
    assert made["ownerReferences"][0]["uid"] == "u1"


@pytest.mark.parametrize(
    "meta",
    [
        {"ownerReferences": [{"kind": "RayCluster", "name": "one", "uid": "u0"}]},
        {"deletionTimestamp": "2026-11-30T10:00:00Z"},
    ],
)
def test_does_not_wait_for_it_longer_than_allowed(
    store: Store, ensure: Ensure, meta: dict[str, Any]
) -> None:
    """The review must be answered; the next pod tries again."""
    store.objects[f"{ACCOUNTS}/{NAME}"] = {"metadata": {"name": NAME, **meta}}
    began_s = time.monotonic()
    with pytest.raises(LookupFailedError, match="no ServiceAccount in time"):
        ensure()
    assert time.monotonic() - began_s < 1.5


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (403, 'serviceaccounts "x" is forbidden: exceeded quota: small, used: count=1'),
        (403, "serviceaccounts is forbidden: User cannot create resource"),
        (403, "unable to create new content in namespace ns because it is being terminated"),
        (422, "metadata.labels: Invalid value"),
        (500, "etcdserver: request timed out"),
    ],
)
def test_a_refusal_is_told_in_kubernetes_words(
    double: ApiDouble, ensure: Ensure, status: int, words: str, sample: Sample
) -> None:
    """One sentence: what, where, why."""

    def refuse(asked: Asked) -> Answer | None:
        return refusal(status, "Why", words) if asked.method == "POST" else None

    double.rules.insert(0, refuse)
    with pytest.raises(LookupFailedError) as caught:
        ensure()
    assert str(caught.value) == f"ServiceAccount ns/{NAME} cannot be made: {words}"
    assert sample("accounts_total", outcome="failed") == 1
    double.rules.remove(refuse)
    ensure()


def test_a_binding_that_is_refused_fails_the_pods_account(
    double: ApiDouble, ensure: Ensure
) -> None:
    """An autoscaler without rights is worse than a pod without a collector."""

    def refuse(asked: Asked) -> Answer | None:
        is_binding = asked.method == "POST" and asked.path == BINDINGS
        return refusal(403, "Forbidden", "cannot bind") if is_binding else None

    double.rules.insert(0, refuse)
    with pytest.raises(LookupFailedError, match="cannot bind"):
        ensure(autoscaler=True)


def test_nothing_is_made_for_a_cluster_that_is_not_known(
    double: ApiDouble, store: Store, ensure: Ensure
) -> None:
    """Without an owner it would stay for ever; one that is there is used."""
    nobody = ClusterFacts(namespace="ns", name="one", uid="")
    with pytest.raises(LookupFailedError, match="RayCluster one is not known"):
        ensure(nobody)
    assert writes(double) == []
    store.objects[f"{ACCOUNTS}/{NAME}"] = {"metadata": {"name": NAME}}
    ensure(nobody)


def test_a_server_that_hangs_costs_no_more_than_allowed(double: ApiDouble, ensure: Ensure) -> None:
    """The account's calls share one limit."""
    release = threading.Event()
    double.rules.insert(0, hangs(release))
    began_s = time.monotonic()
    with pytest.raises(LookupFailedError, match="does not answer"):
        ensure(autoscaler=True)
    release.set()
    assert time.monotonic() - began_s < 1.5
