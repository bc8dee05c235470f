"""The copies follow a real API server through all that happens to it."""

from __future__ import annotations

import secrets
import time

import pytest

from tests.cluster.apiserver import ApiServer
from tests.cluster.client import Client
from tests.webhook.kube.conftest import Sample, Wait
from tests.webhook.kube.real.conftest import Start
from tests.webhook.kube.real.objects import (
    CRD,
    CRDS,
    INJECT,
    install_rayclusters,
    make_cluster,
    make_node,
)

pytestmark = pytest.mark.kube


def test_ray_may_be_installed_later_and_removed(
    admin: Client, namespace: str, start: Start, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the RayCluster's kind the webhook is ready and quiet."""
    monkeypatch.setattr("webhook.kube.watching._NOT_INSTALLED_S", 0.2)
    admin.delete(f"{CRDS}/{CRD}")
    parts = start()
    wait(parts.synced)
    assert parts.lookups.cluster(namespace=namespace, name="one", uid="") is None
    install_rayclusters(admin)
    cluster = make_cluster(admin, namespace)
    found = parts.lookups.cluster(namespace=namespace, name="one", uid=cluster.uid)
    assert found is not None
    wait(lambda: parts.lookups.known_cluster(namespace, "one"))


def test_a_cluster_is_found_before_the_watch_has_it(
    admin: Client, namespace: str, start: Start, wait: Wait, sample: Sample
) -> None:
    """Pods come milliseconds after their cluster; also one made anew under its name."""
    parts = start()
    wait(parts.synced)
    annotations = {"ray.alibabacloud.com/enable-historyserver": "true"}
    for number in range(20):
        name = f"c{number % 5}"
        if number >= 5:
            admin.delete(f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/{name}")
        made = make_cluster(admin, namespace, name, annotations=annotations)
        found = parts.lookups.cluster(namespace=namespace, name=name, uid=made.uid)
        assert found is not None
        assert (found.uid, dict(found.annotations)) == (made.uid, annotations)
    assert sample("lookups_total", resource="rayclusters", source="failed") == 0


def test_changes_are_followed(admin: Client, namespace: str, start: Start, wait: Wait) -> None:
    """Annotations of a cluster, labels of a namespace, and their ends."""
    parts = start()
    wait(parts.synced)
    make_cluster(admin, namespace)
    wait(lambda: parts.lookups.known_cluster(namespace, "one"))
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/one"
    admin.patch(path, {"metadata": {"annotations": {INJECT: "false", "kubectl/x": "y" * 1000}}})
    admin.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {INJECT: "disabled"}}})

    def annotations() -> dict[str, str]:
        known = parts.lookups.known_cluster(namespace, "one")
        return {} if known is None else dict(known.annotations)

    wait(lambda: annotations() == {INJECT: "false"})

    def label() -> str | None:
        known = parts.lookups.known_namespace(namespace)
        return None if known is None else known.labels.get(INJECT)

    wait(lambda: label() == "disabled")
    admin.delete(path)
    wait(lambda: parts.lookups.known_cluster(namespace, "one") is None)


@pytest.mark.slow
def test_a_restart_of_the_api_server_is_survived(
    api_server: ApiServer, admin: Client, namespace: str, start: Start, wait: Wait
) -> None:
    """The copies stay useful meanwhile, and follow again afterwards."""
    parts = start()
    wait(parts.synced)
    old = make_cluster(admin, namespace, "old")
    wait(lambda: parts.lookups.known_cluster(namespace, "old"))
    api_server.restart(down_s=1.0)
    assert parts.synced()
    assert parts.lookups.cluster(namespace=namespace, name="old", uid=old.uid)
    new = make_cluster(admin, namespace, "new")
    assert parts.lookups.cluster(namespace=namespace, name="new", uid=new.uid)
    end_s = time.monotonic() + 60  # Back-off may have grown.
    while parts.lookups.known_cluster(namespace, "new") is None:
        assert time.monotonic() < end_s
        time.sleep(0.1)


def test_every_schedulable_node_counts(admin: Client, node: str, start: Start, wait: Wait) -> None:
    """From the real table of nodes; a cordoned old one does not matter."""
    parts = start()
    wait(parts.synced)
    assert parts.lookups.native_sidecars()
    name = f"old-{secrets.token_hex(3)}"
    make_node(admin, name, "v1.28.9", unschedulable=True)
    try:
        parts.sidecars.check()
        assert parts.lookups.native_sidecars()
        admin.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
        parts.sidecars.check()
        assert not parts.lookups.native_sidecars()
    finally:
        admin.delete(f"/api/v1/nodes/{name}")
    parts.sidecars.check()
    assert parts.lookups.native_sidecars()
