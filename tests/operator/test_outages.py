"""The webhook or the API server is away for a while, and replicas come and go."""

from __future__ import annotations

import pytest

from tests.harness.waiting import eventually
from tests.operator.conftest import Install
from tests.operator.load import pod_load
from tests.operator.platform import Platform
from tests.operator.pods import Space, new_space

pytestmark = pytest.mark.kube


def test_pods_start_without_a_webhook(platform: Platform, install: Install) -> None:
    """The default: no history is better than no work. Once back, the webhook says what is missing."""
    release = install("webhook.reportEverySeconds=1")
    (replica,) = release.replicas.values()
    release.stop_webhook(replica)
    space = new_space(platform, label=release.label)
    space.apply("cluster")
    assert not any(pod.is_injected for pod in space.pods(3))
    release.start_webhook(replica)

    def told() -> list[str]:
        return [e["note"] for e in space.all("Event") if e["reason"] == "CollectorMissing"]

    eventually("an Event about pods without collector", told)


def test_pods_wait_for_the_webhook_where_that_is_wanted(
    platform: Platform, install: Install
) -> None:
    """Only in labelled namespaces; the operator tries again until the webhook is back."""
    release = install("injection.failurePolicy=Fail")
    (replica,) = release.replicas.values()
    release.stop_webhook(replica)
    waiting = new_space(platform, label=release.label)
    free = new_space(platform, value="")
    for space in (waiting, free):
        space.apply("restricted")
    assert not free.pods(1)[0].is_injected

    def refusals() -> list[str]:
        return [e["note"] for e in waiting.all("Event") if "failed calling webhook" in e["note"]]

    eventually("the operator is refused", refusals)
    assert waiting.all("Pod") == []
    release.start_webhook(replica)
    assert waiting.pods(1)[0].is_injected


def test_replicas_are_exchanged_under_load(platform: Platform, install: Install) -> None:
    """A roll-out, one at a time: no pod is refused or goes without a collector."""
    release = install("injection.failurePolicy=Fail", replicas=2)
    space = new_space(platform, label=release.label)
    space.apply("cluster")
    space.pods(3)
    first, second = release.replicas.values()
    with pod_load(space, "plain") as load:
        for replica in (first, second):
            release.stop_webhook(replica)
            release.start_webhook(replica)
        load.await_more(50)
    assert load.faults == []
    both = [release.reviews(replica) for replica in (first, second)]
    assert min(both) > 0


def test_a_replica_that_dies_costs_no_collector(platform: Platform, install: Install) -> None:
    """The Service still leads there: some calls fail, and the operator makes them again."""
    release = install("injection.failurePolicy=Fail", replicas=2)
    first, _ = release.replicas.values()
    release.kill_webhook(first)
    space = new_space(platform, label=release.label)
    space.apply("cluster")
    assert all(pod.is_injected for pod in space.pods(3))


def test_the_api_server_restarts(platform: Platform, space: Space) -> None:
    """Webhook, operator and certificates find it again."""
    space.apply("cluster", name="before")
    space.pods(3)
    platform.server.restart(down_s=1.0, abruptly=True)
    space.apply("cluster", name="after", annotations={"rayhistory.io/grace-period-seconds": "240"})
    pods = space.pods(3, cluster="after")
    # The annotation is the RayCluster's: it was looked up after the restart.
    assert {pod.spec["terminationGracePeriodSeconds"] for pod in pods} == {240}
