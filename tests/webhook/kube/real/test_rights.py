"""RBAC: the rights suffice, all are used, and a missing one is named."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cluster.client import Client
from tests.webhook.kube.conftest import Sample, Wait
from tests.webhook.kube.real.conftest import ALL_RIGHTS, Start
from tests.webhook.kube.real.objects import ACCOUNT, make_cluster, make_pod
from webhook.facts import LookupFailedError, Needed
from webhook.kube.client import Api

pytestmark = pytest.mark.kube


def used_right(method: str, url: str) -> tuple[str, str]:
    """Resource and verb of a call, as RBAC names them; `/version` is open to all."""
    path, _, query = url.partition("?")
    path = re.sub(r"^https://[^/]+", "", path)
    found = re.fullmatch(r"/(?:api|apis/[^/]+)/v1(?:/namespaces/[^/]+)?/([a-z]+)(/[^/]+)?", path)
    if found is None:
        # A namespace itself: its name was taken for the scope.
        return ("namespaces", "get") if path.startswith("/api/v1/namespaces/") else (path, "get")
    if method != "GET":
        return found[1], {"POST": "create", "PATCH": "patch"}[method]
    if "watch=1" in query:
        return found[1], "watch"
    return found[1], "get" if found[2] else "list"


def test_the_rights_suffice_and_none_is_for_nothing(
    admin: Client,
    namespace: str,
    node: str,
    start: Start,
    wait: Wait,
    sample: Sample,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every call succeeds; every right is used by one."""
    monkeypatch.setattr("webhook.kube.events._REPEAT_S", 0.2)
    used: set[tuple[str, str]] = set()

    def watched(api: Api) -> None:
        request = api._pool.request

        def noted(method: str, url: str, **options: Any) -> Any:
            answer = request(method, url, **options)
            assert answer.status != 403, url
            used.add(used_right(method, url))
            return answer

        monkeypatch.setattr(api._pool, "request", noted)

    parts = start(watched=watched)
    wait(parts.synced)
    cluster = make_cluster(admin, namespace)
    make_pod(admin, namespace)
    wait(lambda: parts.lookups.known_cluster(namespace, "one"))
    wait(lambda: sample("pods_without_collector", namespace=namespace, reason="namespace_label"))
    assert parts.lookups.native_sidecars()
    parts.lookups.cluster(namespace=namespace, name="absent", uid="")
    assert parts.lookups.namespace("absent") is None
    assert not parts.lookups.exists(Needed.CLAIM, namespace=namespace, name="absent")
    assert parts.lookups.exists(Needed.ACCOUNT, namespace=namespace, name="default")
    parts.accounts.ensure(name=ACCOUNT, cluster=cluster, pull_secrets=(), autoscaler=True)

    def is_repeated() -> float:
        parts.events.record(cluster, "windows", "m", "Warning")
        return sample("events_total", outcome="repeated")

    wait(is_repeated)
    parts.stop()
    granted = {
        (resource, verb)
        for rule in ALL_RIGHTS
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    # `bind` is checked by the API server when a binding is made.
    assert granted - used == {("clusterroles", "bind")}
    assert used - granted == {("/version", "get")}


def test_without_bind_no_autoscaler_is_made_to_work(
    admin: Client, namespace: str, start: Start, wait: Wait
) -> None:
    """The webhook cannot give away what it was not told to."""
    rules = [rule for rule in ALL_RIGHTS if "bind" not in rule["verbs"]]
    parts = start(rules)
    wait(parts.synced)
    cluster = make_cluster(admin, namespace)
    with pytest.raises(LookupFailedError, match="is attempting to grant RBAC permissions"):
        parts.accounts.ensure(name=ACCOUNT, cluster=cluster, pull_secrets=(), autoscaler=True)


def test_a_missing_right_is_named_by_readiness(start: Start, wait: Wait) -> None:
    """The operator sees which."""
    parts = start(ALL_RIGHTS[1:])
    wait(lambda: "cannot list resource" in parts.checks()["rayclusters"]())
    assert not parts.synced()
