"""All of it against a real kube-apiserver, with RBAC: no more rights than the chart gives."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.cluster.apiserver import ApiServer
from tests.cluster.client import Client, RefusedError
from tests.webhook.kube.conftest import Sample, Wait
from tests.webhook.kube.rights import Rule, rights
from webhook.decisions import decide
from webhook.facts import ClusterFacts, LookupFailedError
from webhook.kube.client import Api, connect
from webhook.kube.parts import KubeParts, kube_parts
from webhook.settings import Kubernetes, ServiceAccount, Settings

pytestmark = pytest.mark.kube

CRD = "rayclusters.ray.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
AUTOSCALER_ROLE = "ray-autoscaler"
AUTOSCALER_RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
]
INJECT = "rayhistory.io/inject"
ACCOUNT = "ray-historyserver-one"

Start = Callable[..., KubeParts]


def install_rayclusters(admin: Client) -> None:
    """A RayCluster of any content: only its metadata matters here."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "rayclusters", "singular": "raycluster", "kind": "RayCluster"}
    spec = {
        "group": "ray.io",
        "names": {**names, "listKind": "RayClusterList"},
        "scope": "Namespaced",
        "versions": [version],
    }
    with suppress(RefusedError):  # Another test has left one.
        admin.post(CRDS, {"metadata": {"name": CRD}, "spec": spec})
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        with suppress(RefusedError):
            admin.get("/apis/ray.io/v1/rayclusters")
            return
        time.sleep(0.1)
    raise AssertionError("RayClusters are not served")


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


ALL_RIGHTS = rights(
    detects_sidecars=True, makes_accounts=True, reports=True, autoscaler_role=AUTOSCALER_ROLE
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


def make_cluster(admin: Client, namespace: str, name: str = "one", **meta: Any) -> ClusterFacts:
    """A RayCluster, as its facts."""
    made = admin.post(
        f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters",
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": name, **meta},
            "spec": {"rayVersion": "2.55.1"},
        },
    )
    return ClusterFacts(namespace=namespace, name=name, uid=made["metadata"]["uid"])


def make_pod(admin: Client, namespace: str, *, account: str = "", cluster: str = "one") -> None:
    """A Ray pod without a collector."""
    spec: dict[str, Any] = {"containers": [{"name": "ray-worker", "image": "ray"}]}
    if account:
        spec["serviceAccountName"] = account
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": "worker"}
    admin.post(
        f"/api/v1/namespaces/{namespace}/pods",
        {"metadata": {"generateName": "p-", "labels": labels}, "spec": spec},
    )


@pytest.fixture
def node(admin: Client) -> Iterator[str]:
    """A node with a kubelet as new as the server."""
    name = f"node-{secrets.token_hex(3)}"
    make_node(admin, name, "v1.34.4")
    yield name
    admin.delete(f"/api/v1/nodes/{name}")


def make_node(admin: Client, name: str, kubelet: str, *, unschedulable: bool = False) -> None:
    """A node that registered itself."""
    admin.post(
        "/api/v1/nodes",
        {
            "metadata": {"name": name},
            "spec": {"unschedulable": unschedulable},
            "status": {"nodeInfo": dict.fromkeys(NODE_INFO, "x") | {"kubeletVersion": kubelet}},
        },
    )


NODE_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


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


def test_events_are_valid_counted_and_shared(
    admin: Client, namespace: str, start: Start, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two replicas, many pods: one Event of each reason, as `kubectl describe` shows it."""
    monkeypatch.setattr("webhook.kube.events._REPEAT_S", 0.2)
    monkeypatch.setattr("webhook.kube.events._AGAIN_S", 0.2)
    cluster = make_cluster(admin, namespace)
    tellers = [start(registry=CollectorRegistry()).events for _ in range(2)]
    for _ in range(5):
        for teller in tellers:
            teller.record(cluster, "namespace_label", "added " + "ü" * 2000, "Normal")
        time.sleep(0.1)

    def found() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = admin.get(
            f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        )["items"]
        return items

    def count() -> int:
        return sum(int(event.get("series", {"count": 1})["count"]) for event in found())

    wait(lambda: count() == 10)
    (event,) = found()
    assert (event["reason"], event["type"]) == ("NamespaceLabel", "Normal")
    assert event["regarding"]["uid"] == cluster.uid
    # The older API's view, which `kubectl describe` asks by the involved object.
    old = admin.get(
        f"/api/v1/namespaces/{namespace}/events"
        f"?fieldSelector=involvedObject.uid%3D{cluster.uid},involvedObject.kind%3DRayCluster"
    )
    assert [one["metadata"]["name"] for one in old["items"]] == [event["metadata"]["name"]]


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


def test_pods_without_a_collector_are_reported(
    admin: Client, namespace: str, start: Start, wait: Wait, sample: Sample
) -> None:
    """Made while the webhook was away."""
    cluster = make_cluster(admin, namespace)
    for _ in range(3):
        make_pod(admin, namespace)
    parts = start()

    def missing() -> float:
        return sample("pods_without_collector", namespace=namespace, reason="namespace_label")

    wait(lambda: missing() == 3)
    events = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    wait(lambda: admin.get(events)["items"])
    (event,) = admin.get(events)["items"]
    assert (event["reason"], event["regarding"]["uid"]) == ("CollectorMissing", cluster.uid)
    admin.delete(f"/api/v1/namespaces/{namespace}/pods")
    assert parts.reporter is not None
    wait(lambda: missing() == 0)
