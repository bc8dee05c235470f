"""The API server that other tests use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.apiserver import ApiServer, MissingError, binaries
from tests.cluster.client import RefusedError

READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}


@pytest.mark.kube
def test_an_account_may_do_what_its_rules_say_and_no_more(api_server: ApiServer) -> None:
    """RBAC is that of a cluster."""
    namespace, other = api_server.namespace(), api_server.namespace()
    account = api_server.account("reader", namespace=namespace, rules=[READ_PODS])
    assert account.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"] == []
    for path in (f"{other}/pods", f"{namespace}/secrets"):
        with pytest.raises(RefusedError) as refused:
            account.client.get(f"/api/v1/namespaces/{path}")
        assert refused.value.status == 403


@pytest.mark.kube
def test_objects_outlive_a_restart(api_server: ApiServer) -> None:
    """A restarted API server has the same address, accounts and objects."""
    namespace = api_server.namespace(labels={"kept": "yes"})
    account = api_server.account("reader", namespace=namespace, rules=[READ_PODS])
    api_server.restart()
    found = api_server.admin().get(f"/api/v1/namespaces/{namespace}")
    assert found["metadata"]["labels"]["kept"] == "yes"
    assert account.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"] == []


def test_missing_binaries_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not there, where it was looked for, and what to do."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(MissingError, match=f"no etcd and no kube-apiserver in {tmp_path}; build"):
        binaries()
