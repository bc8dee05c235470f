"""Accounts on a real API server: its admission, its quota, several replicas."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry

from tests.cluster.client import Client, RefusedError
from tests.webhook.kube.conftest import Sample, Wait
from tests.webhook.kube.real.conftest import Start
from tests.webhook.kube.real.objects import ACCOUNT, make_cluster, make_pod
from webhook.facts import LookupFailedError

pytestmark = pytest.mark.kube


def test_a_pod_may_use_its_account_at_once(
    admin: Client, namespace: str, start: Start, wait: Wait
) -> None:
    """Kubernetes' own admission looks for the account in the same request."""
    parts = start()
    wait(parts.synced)
    cluster = make_cluster(admin, namespace)
    with pytest.raises(RefusedError, match=f'serviceaccount "{ACCOUNT}" not found'):
        make_pod(admin, namespace, account=ACCOUNT)
    parts.accounts.ensure(
        name=ACCOUNT, cluster=cluster, pull_secrets=("registry",), autoscaler=True
    )
    make_pod(admin, namespace, account=ACCOUNT)
    made = admin.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}")
    assert made["imagePullSecrets"] == [{"name": "registry"}]
    assert made["metadata"]["ownerReferences"][0]["uid"] == cluster.uid
    review = {
        "spec": {
            "user": f"system:serviceaccount:{namespace}:{ACCOUNT}",
            "resourceAttributes": {
                "namespace": namespace,
                "verb": "patch",
                "group": "ray.io",
                "resource": "rayclusters",
            },
        }
    }
    answer = admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer["status"]["allowed"]


def test_replicas_race_for_an_account(
    admin: Client, namespace: str, start: Start, wait: Wait, sample: Sample
) -> None:
    """Both pods get it, whoever made it."""
    one, other = start(), start(registry=CollectorRegistry())
    wait(lambda: one.synced() and other.synced())
    with ThreadPoolExecutor(8) as pool:
        for number in range(10):
            cluster = make_cluster(admin, namespace, f"c{number}")
            asking = [
                pool.submit(
                    parts.accounts.ensure,
                    name=f"ray-historyserver-c{number}",
                    cluster=cluster,
                    pull_secrets=(),
                    autoscaler=True,
                )
                for parts in (one, other) * 4
            ]
            for asked in asking:
                asked.result()
    assert sample("accounts_total", outcome="failed") == 0


def test_a_full_quota_is_told_and_does_not_hide_an_account(
    admin: Client, namespace: str, start: Start, wait: Wait
) -> None:
    """In Kubernetes' words; an account that is there needs no quota."""
    parts = start()
    wait(parts.synced)
    cluster = make_cluster(admin, namespace)
    hard = {"count/serviceaccounts": "1"}
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    admin.post(quotas, {"metadata": {"name": "small"}, "spec": {"hard": hard}})
    admin.patch(f"{quotas}/small/status", {"status": {"hard": hard, "used": hard}})

    def ensure() -> None:
        parts.accounts.ensure(name=ACCOUNT, cluster=cluster, pull_secrets=(), autoscaler=False)

    def is_refused() -> bool:
        """The quota's admission learns of it by a watch of its own."""
        with suppress(LookupFailedError):
            ensure()
            admin.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}")
            parts.accounts._known.clear()
            return False
        return True

    wait(is_refused)
    with pytest.raises(
        LookupFailedError, match=f"{ACCOUNT} cannot be made: .* exceeded quota: small"
    ):
        ensure()
    admin.delete(f"{quotas}/small")
