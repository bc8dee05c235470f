"""Look-ups: the copy first, one live call on a miss, never longer than allowed."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.webhook.kube.api_double import Answer, ApiDouble, Asked, hangs, refusal
from tests.webhook.kube.conftest import Sample
from webhook.facts import LookupFailedError, Needed
from webhook.kube import clusters, namespaces
from webhook.kube.client import Api, Bounds
from webhook.kube.clusters import ClusterCopy, of_use
from webhook.kube.lookups import KubeLookups
from webhook.kube.metrics import KubeMetrics
from webhook.kube.namespaces import NamespaceCopy
from webhook.kube.versions import SidecarSupport
from webhook.kube.wire import ObjectMeta, PartialObject
from webhook.settings import SidecarMode

CLUSTER = "/apis/ray.io/v1/namespaces/ns/rayclusters/one"


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """Begins anywhere."""
    return Clock()


@pytest.fixture
def cluster_copy() -> ClusterCopy:
    """Empty: the watch has nothing yet."""
    return ClusterCopy(of_use("rayhistory.io/inject", "ray.alibabacloud.com/enable-historyserver"))


@pytest.fixture
def namespace_copy() -> NamespaceCopy:
    """Empty: the watch has nothing yet."""
    return NamespaceCopy(of_use("rayhistory.io/inject"))


@pytest.fixture
def lookups(
    api: Api,
    cluster_copy: ClusterCopy,
    namespace_copy: NamespaceCopy,
    metrics: KubeMetrics,
    clock: Clock,
) -> KubeLookups:
    """With half a second for a live look."""
    return KubeLookups(
        api=api,
        cluster_copy=cluster_copy,
        namespace_copy=namespace_copy,
        sidecars=SidecarSupport(api, mode=SidecarMode.NATIVE),
        metrics=metrics,
        bounds=Bounds(0.5),
        clock=clock,
    )


def has(double: ApiDouble, path: str = CLUSTER, **meta: object) -> None:
    """The API server has this object."""
    body = {"metadata": {"name": "one", "namespace": "ns", "uid": "u1", **meta}}
    double.rules.append(lambda asked: Answer(200, body) if asked.path == path else None)


def put(copy: ClusterCopy, **meta: object) -> None:
    """The watch has this object."""
    merged = {"name": "one", "namespace": "ns", "uid": "u1", **meta}
    copy.put(PartialObject(ObjectMeta(**merged)))  # type: ignore[arg-type]


def test_what_the_watch_has_costs_no_call(
    double: ApiDouble, lookups: KubeLookups, cluster_copy: ClusterCopy, sample: Sample
) -> None:
    """The ordinary case, at a thousand reviews per second."""
    put(cluster_copy, annotations={"rayhistory.io/inject": "true"})
    found = lookups.cluster(namespace="ns", name="one", uid="u1")
    assert found is not None
    assert found.annotations == {"rayhistory.io/inject": "true"}
    assert lookups.cluster(namespace="ns", name="one", uid="") == found
    assert double.asked == []
    assert sample("lookups_total", resource="rayclusters", source="watch") == 2


def test_a_cluster_that_the_watch_has_not_yet_is_asked_for_once(
    double: ApiDouble, lookups: KubeLookups, clock: Clock, sample: Sample
) -> None:
    """Its answer serves the pods of the next seconds, until the watch has it."""
    has(double, annotations={"ray.alibabacloud.com/enable-historyserver": "true", "big/x": "y"})
    for _ in range(3):
        found = lookups.cluster(namespace="ns", name="one", uid="u1")
        assert found is not None
        assert found.annotations == {"ray.alibabacloud.com/enable-historyserver": "true"}
    assert len(double.asked) == 1
    assert sample("lookups_total", resource="rayclusters", source="live") == 1
    assert sample("lookups_total", resource="rayclusters", source="recent") == 2
    clock.now_s += 11
    lookups.cluster(namespace="ns", name="one", uid="u1")
    assert len(double.asked) == 2


def test_the_watch_is_newer_than_a_recent_answer(
    double: ApiDouble, lookups: KubeLookups, cluster_copy: ClusterCopy
) -> None:
    """An annotation that changed is seen as soon as the watch has it."""
    has(double, annotations={"rayhistory.io/inject": "true"})
    lookups.cluster(namespace="ns", name="one", uid="u1")
    put(cluster_copy, annotations={"rayhistory.io/inject": "false"})
    found = lookups.cluster(namespace="ns", name="one", uid="u1")
    assert found is not None
    assert found.annotations == {"rayhistory.io/inject": "false"}


def test_an_older_cluster_of_the_same_name_is_not_taken(
    double: ApiDouble, lookups: KubeLookups, cluster_copy: ClusterCopy
) -> None:
    """The watch still has the deleted one; the API server has the new one."""
    put(cluster_copy, uid="old", annotations={"rayhistory.io/inject": "false"})
    has(double, uid="new")
    found = lookups.cluster(namespace="ns", name="one", uid="new")
    assert found is not None
    assert (found.uid, found.annotations) == ("new", {})


def test_another_uid_everywhere_is_none(
    double: ApiDouble, lookups: KubeLookups, cluster_copy: ClusterCopy
) -> None:
    """A pod that outlived its cluster says nothing of the new one."""
    put(cluster_copy, uid="u2")
    has(double, uid="u2")
    assert lookups.cluster(namespace="ns", name="one", uid="u1") is None


def test_that_there_is_none_is_not_kept(double: ApiDouble, lookups: KubeLookups) -> None:
    """The cluster may come a moment later."""
    assert lookups.cluster(namespace="ns", name="one", uid="u1") is None
    has(double)
    assert lookups.cluster(namespace="ns", name="one", uid="u1") is not None


@pytest.mark.parametrize("name", ["..", "a/b", "../../../api/v1/secrets/x", "", "UP", "a" * 300])
def test_a_name_that_cannot_be_is_not_asked_for(
    double: ApiDouble, lookups: KubeLookups, name: str
) -> None:
    """Owner references may hold anything; a path made of it must lead nowhere else."""
    assert lookups.cluster(namespace="ns", name=name, uid="u1") is None
    assert lookups.cluster(namespace=name, name="one", uid="u1") is None
    assert lookups.namespace(name) is None
    assert double.asked == []


def test_a_burst_of_pods_asks_once(double: ApiDouble, lookups: KubeLookups) -> None:
    """Fifty pods of a new cluster, at the same time."""
    release = threading.Event()

    def slow(asked: Asked) -> Answer | None:
        release.wait(5)
        return None

    double.rules.append(slow)
    has(double)
    with ThreadPoolExecutor(16) as pool:
        asking = [
            pool.submit(lookups.cluster, namespace="ns", name="one", uid="u1") for _ in range(16)
        ]
        time.sleep(0.1)
        release.set()
        assert all(one.result() is not None for one in asking)
    assert len(double.asked) == 1


def test_nobody_elses_no_counts(double: ApiDouble, lookups: KubeLookups) -> None:
    """A call that began before the cluster was made says no; the pod after it asks itself."""
    began, release = threading.Event(), threading.Event()

    def first_is_early(asked: Asked) -> Answer | None:
        if len(double.asked) > 1:
            return None
        began.set()
        release.wait(5)
        return refusal(404, "NotFound", "not found")

    double.rules.append(first_is_early)
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(lookups.cluster, namespace="ns", name="one", uid="u1")
        began.wait(5)
        has(double)
        late = pool.submit(lookups.cluster, namespace="ns", name="one", uid="u1")
        time.sleep(0.1)
        release.set()
        assert early.result() is None
        assert late.result() is not None


def test_a_server_that_hangs_costs_no_more_than_allowed(
    double: ApiDouble, lookups: KubeLookups, sample: Sample
) -> None:
    """Also for those who wait for another's call."""
    release = threading.Event()
    double.rules.append(hangs(release))

    def ask() -> float:
        began_s = time.monotonic()
        with pytest.raises(LookupFailedError, match="one was not found out"):
            lookups.cluster(namespace="ns", name="one", uid="u1")
        return time.monotonic() - began_s

    with ThreadPoolExecutor(4) as pool:
        took_s = list(pool.map(lambda _: ask(), range(4)))
    release.set()
    assert max(took_s) < 1.0
    assert sample("lookups_total", resource="rayclusters", source="failed") == 4


def test_a_review_with_little_time_left_waits_less(
    api: Api,
    double: ApiDouble,
    cluster_copy: ClusterCopy,
    namespace_copy: NamespaceCopy,
    metrics: KubeMetrics,
) -> None:
    """All look-ups of one review together are bounded."""
    release = threading.Event()
    double.rules.append(hangs(release))
    lookups = KubeLookups(
        api=api,
        cluster_copy=cluster_copy,
        namespace_copy=namespace_copy,
        sidecars=SidecarSupport(api, mode=SidecarMode.CLASSIC),
        metrics=metrics,
        bounds=Bounds(5, lambda limit_s: min(limit_s, 0.1)),
    )
    began_s = time.monotonic()
    with pytest.raises(LookupFailedError):
        lookups.namespace("ns")
    release.set()
    assert time.monotonic() - began_s < 1


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_refusal_is_told_in_kubernetes_words(
    double: ApiDouble, lookups: KubeLookups, status: int
) -> None:
    """Not taken for `there is none`."""
    double.rules.append(lambda _: refusal(status, "Why", "said so"))
    with pytest.raises(LookupFailedError, match=rf"said so \({status} Why\)"):
        lookups.cluster(namespace="ns", name="one", uid="u1")


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"metadata": {"name": 3}}'])
def test_an_answer_that_is_no_object_is_a_failure(
    double: ApiDouble, lookups: KubeLookups, body: bytes
) -> None:
    """A proxy's page, for instance."""
    double.rules.append(lambda _: Answer(200, body))
    with pytest.raises(LookupFailedError):
        lookups.cluster(namespace="ns", name="one", uid="u1")


def test_a_namespace_that_the_watch_has_not_yet_is_asked_for(
    double: ApiDouble, lookups: KubeLookups, namespace_copy: NamespaceCopy
) -> None:
    """All labels count, since which one decides is a setting."""
    assert lookups.namespace("ns") is None
    has(double, namespaces.path_of("ns"), name="ns", labels={"team": "a"}, annotations={"x": "y"})
    for _ in range(2):
        found = lookups.namespace("ns")
        assert found is not None
        assert (found.name, dict(found.labels), dict(found.annotations)) == (
            "ns",
            {"team": "a"},
            {},
        )
    assert len(double.asked) == 2
    namespace_copy.put(PartialObject(ObjectMeta(name="ns", labels={"team": "b"})))
    found = lookups.namespace("ns")
    assert found is not None
    assert found.labels == {"team": "b"}


@pytest.mark.parametrize(
    ("labels", "owners", "expected"),
    [
        ({}, [], ("", "")),
        (
            {"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "j"},
            [],
            ("rayjob", "j"),
        ),
        (
            {"ray.io/originated-from-crd": "RayService", "ray.io/originated-from-cr-name": "s"},
            [],
            ("rayservice", "s"),
        ),
        ({}, [{"kind": "RayJob", "name": "j2", "uid": "u"}], ("rayjob", "j2")),
        ({}, [{"kind": "Workload", "name": "w", "uid": "u"}], ("", "")),
        (
            {"ray.io/originated-from-crd": "RayCluster", "ray.io/originated-from-cr-name": "c"},
            [],
            ("", ""),
        ),
    ],
)
def test_a_cluster_tells_which_job_or_service_made_it(
    double: ApiDouble,
    lookups: KubeLookups,
    labels: dict[str, str],
    owners: list[dict[str, str]],
    expected: tuple[str, str],
) -> None:
    """KubeRay's labels are on the RayCluster, not on its pods."""
    has(double, labels=labels, ownerReferences=owners)
    found = lookups.cluster(namespace="ns", name="one", uid="u1")
    assert found is not None
    assert (found.owner_kind, found.owner_name) == expected


def test_which_annotations_are_kept() -> None:
    """Those of our domains; with a label of no domain, that one."""
    keeps = of_use("inject", "rayhistory.io/inject")
    assert [
        key
        for key in ("inject", "other", "rayhistory.io/cpu-limit", "kubectl.kubernetes.io/x", "")
        if keeps(key)
    ] == ["inject", "rayhistory.io/cpu-limit"]


def test_paths_cannot_be_left() -> None:
    """A slash in a name is part of the name."""
    assert clusters.path_of("a/b", "..x/y").endswith("/namespaces/a%2Fb/rayclusters/..x%2Fy")


CLAIM = "/api/v1/namespaces/ns/persistentvolumeclaims/history"


def test_a_claim_is_asked_for_until_it_is_there(
    double: ApiDouble, lookups: KubeLookups, clock: Clock, sample: Sample
) -> None:
    """That there is none is not kept; that there is one, for seconds."""
    assert not lookups.exists(Needed.CLAIM, namespace="ns", name="history")
    has(double, CLAIM)
    for _ in range(3):
        assert lookups.exists(Needed.CLAIM, namespace="ns", name="history")
    assert len(double.asked) == 2
    assert sample("lookups_total", resource="persistentvolumeclaims", source="recent") == 2
    clock.now_s += 11
    assert lookups.exists(Needed.CLAIM, namespace="ns", name="history")
    assert len(double.asked) == 3


def test_a_claim_that_is_about_to_go_is_none(double: ApiDouble, lookups: KubeLookups) -> None:
    """Kubernetes starts no pod with it any more."""
    has(double, CLAIM, deletionTimestamp="2026-01-01T00:00:00Z")
    assert not lookups.exists(Needed.CLAIM, namespace="ns", name="history")
    assert not lookups.exists(Needed.CLAIM, namespace="ns", name="../history")
    assert [asked.path for asked in double.asked] == [CLAIM]
