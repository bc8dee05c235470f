"""Events: told once, counted when they repeat, never in a review's way."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.webhook.kube.api_double import Answer, ApiDouble, Asked, hangs, refusal
from tests.webhook.kube.conftest import Sample, Wait
from webhook.facts import ClusterFacts
from webhook.kube.client import Api
from webhook.kube.event_queue import Due, EventKey, EventQueue
from webhook.kube.events import KubeEvents, camel
from webhook.kube.metrics import KubeMetrics

PATH = "/apis/events.k8s.io/v1/namespaces/ns/events"
CLUSTER = ClusterFacts(namespace="ns", name="one", uid="u1")
KEY = EventKey("ns", "one", "u1", "windows", "Warning")


class Store:
    """Events as the API server keeps them: a changed version refuses a patch."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.version = 0

    def __call__(self, asked: Asked) -> Answer | None:
        if not asked.path.startswith(PATH):
            return None
        self.version += 1
        if asked.method == "POST":
            path = f"{PATH}/{asked.body['metadata']['name']}"
            if path in self.events:
                return refusal(409, "AlreadyExists", "already exists")
            self.events[path] = asked.body
        else:
            path = asked.path
            stored = self.events[path]
            wanted = asked.body.get("metadata", {}).get("resourceVersion")
            if wanted not in (None, stored["metadata"]["resourceVersion"]):
                return refusal(409, "Conflict", "the object has been modified")
            if "series" in asked.body:
                stored["series"] = asked.body["series"]
        self.events[path]["metadata"]["resourceVersion"] = str(self.version)
        return Answer(200, self.events[path])

    @property
    def counts(self) -> list[int]:
        """How often each Event happened."""
        return [event.get("series", {"count": 1})["count"] for event in self.events.values()]


@pytest.fixture
def store(double: ApiDouble) -> Store:
    """Empty."""
    rule = Store()
    double.rules.append(rule)
    return rule


def queue(**options: Any) -> EventQueue:
    """A queue with short waits."""
    values: dict[str, Any] = {"most": 10, "repeat_s": 0.1, "most_per_s": 1000.0, "burst": 100}
    return EventQueue(**(values | options))


Events = Callable[..., KubeEvents]


@pytest.fixture
def events(api: Api, metrics: KubeMetrics, store: Store) -> Iterator[Events]:
    """Starts tellers."""
    started: list[KubeEvents] = []

    def begin(**options: Any) -> KubeEvents:
        options.setdefault("queue", queue())
        teller = KubeEvents(api=api, metrics=metrics, instance="pod-1", again_s=0.05, **options)
        started.append(teller)
        teller.start()
        return teller

    yield begin
    for teller in started:
        teller.stop()
        teller.join(5)


def test_an_event_as_the_api_wants_it(store: Store, events: Events, wait: Wait) -> None:
    """On the RayCluster, with a reason that people can filter by."""
    events().record(CLUSTER, "lookup_failed", "ü" * 1000, "Warning")
    wait(lambda: store.events)
    (event,) = store.events.values()
    assert event["regarding"] == {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "namespace": "ns",
        "name": "one",
        "uid": "u1",
    }
    assert (event["type"], event["reason"]) == ("Warning", "LookupFailed")
    assert event["note"] == "ü" * 512
    assert event["metadata"]["name"].startswith("one.")
    assert event["reportingInstance"] == "pod-1"


def test_what_repeats_is_counted_in_one(
    store: Store, events: Events, wait: Wait, sample: Sample
) -> None:
    """A hundred workers of one cluster are one line of `kubectl describe`."""
    teller = events()
    for _ in range(100):
        teller.record(CLUSTER, "namespace_label", "added", "Normal")
    wait(lambda: store.counts == [100])
    told = sample("events_total", outcome="recorded") + sample("events_total", outcome="repeated")
    assert told == 100


def test_replicas_share_an_event(store: Store, events: Events, wait: Wait) -> None:
    """Each adds to the other's count; a conflict is tried again."""
    one, other = events(), events()
    for _ in range(5):
        one.record(CLUSTER, "namespace_label", "added", "Normal")
        other.record(CLUSTER, "namespace_label", "added", "Normal")
        time.sleep(0.05)
    wait(lambda: store.counts == [10])


def test_other_reasons_kinds_and_clusters_are_other_events(
    store: Store, events: Events, wait: Wait
) -> None:
    """A cluster made anew under its name is another one."""
    teller = events()
    teller.record(CLUSTER, "windows", "m", "Warning")
    teller.record(CLUSTER, "name_taken", "m", "Warning")
    teller.record(ClusterFacts(namespace="ns", name="one", uid="u2"), "windows", "m", "Warning")
    wait(lambda: len(store.events) == 3)
    assert store.counts == [1, 1, 1]


def test_record_returns_at_once_though_the_server_hangs(
    double: ApiDouble, events: Events, sample: Sample
) -> None:
    """A review never waits for an Event; what is too much is counted."""
    release = threading.Event()
    double.rules.insert(0, hangs(release))
    teller = events(queue=queue(most=3, repeat_s=1000.0))
    began_s = time.monotonic()
    for number in range(1000):
        cluster = ClusterFacts(namespace="ns", name=f"c{number}", uid=f"u{number}")
        teller.record(cluster, "windows", "m", "Warning")
    assert time.monotonic() - began_s < 1
    assert sample("events_total", outcome="dropped_full") == 997
    release.set()


def test_an_outage_is_survived(
    double: ApiDouble, store: Store, events: Events, wait: Wait, sample: Sample
) -> None:
    """Told later, with all that happened meanwhile."""
    answers = [refusal(503, "ServiceUnavailable", "starting"), refusal(429, "TooMany", "later")]
    double.rules.insert(0, lambda _: answers.pop() if answers else None)
    teller = events()
    teller.record(CLUSTER, "windows", "m", "Warning")
    teller.record(CLUSTER, "windows", "m", "Warning")
    wait(lambda: store.counts == [2])
    assert sample("events_total", outcome="dropped_unreachable") == 0


def test_an_outage_that_lasts_drops(
    double: ApiDouble, events: Events, wait: Wait, sample: Sample
) -> None:
    """Five attempts; then it is counted."""
    double.rules.insert(0, lambda _: refusal(503, "ServiceUnavailable", "starting"))
    events().record(CLUSTER, "windows", "m", "Warning")
    wait(lambda: sample("events_total", outcome="dropped_unreachable") == 1)
    assert len(double.asked) == 5


@pytest.mark.parametrize("status", [403, 404, 422])
def test_a_refusal_drops_and_does_not_stop_the_others(
    double: ApiDouble, store: Store, events: Events, wait: Wait, sample: Sample, status: int
) -> None:
    """The namespace ends, or a right is missing."""

    def refuse(asked: Asked) -> Answer | None:
        is_bad = asked.body.get("reason") == "Windows"
        return refusal(status, "Why", "no") if is_bad else None

    double.rules.insert(0, refuse)
    teller = events()
    teller.record(CLUSTER, "windows", "m", "Warning")
    teller.record(CLUSTER, "name_taken", "m", "Warning")
    wait(lambda: len(store.events) == 1)
    wait(lambda: sample("events_total", outcome="dropped_refused") == 1)


def test_stopping_tells_what_is_due_and_counts_the_rest(
    store: Store, events: Events, sample: Sample
) -> None:
    """A roll-out loses no first Event."""
    teller = events(queue=queue(repeat_s=1000.0))
    for _ in range(3):
        teller.record(CLUSTER, "windows", "m", "Warning")
        time.sleep(0.2)
    teller.record(CLUSTER, "name_taken", "m", "Warning")
    teller.stop()
    teller.join(5)
    assert len(store.events) == 2
    assert sample("events_total", outcome="dropped_stopped") == 2


def test_reasons_are_spelled_as_kubernetes_does() -> None:
    """Words joined, each with a capital."""
    assert camel("namespace_label") == "NamespaceLabel"


def take_all(waiting: EventQueue, now_s: float) -> list[Due]:
    """All that is due now."""
    found = []
    while (due := waiting.take(now_s)) is not None:
        found.append(due)
    return found


def test_queue_the_first_is_due_at_once_its_repeats_later() -> None:
    """The message told is the newest."""
    waiting = queue(repeat_s=300.0)
    assert waiting.put(KEY, CLUSTER, "first", 10.0)
    assert [due.count for due in take_all(waiting, 10.0)] == [1]
    waiting.put(KEY, CLUSTER, "second", 11.0)
    waiting.put(KEY, CLUSTER, "third", 12.0)
    assert take_all(waiting, 12.0) == []
    assert waiting.next_s(12.0) == pytest.approx(298.0)
    (due,) = take_all(waiting, 310.0)
    assert (due.count, due.message) == (2, "third")
    assert waiting.next_s(310.0) == math.inf


def test_queue_keeps_the_rate() -> None:
    """A burst, then so many per second."""
    waiting = queue(most=100, most_per_s=2.0, burst=3)
    for number in range(10):
        key = EventKey("ns", f"c{number}", "", "windows", "Warning")
        waiting.put(key, CLUSTER, "m", 100.0)
    assert len(take_all(waiting, 100.0)) == 3
    assert waiting.next_s(100.0) == pytest.approx(0.5)
    assert len(take_all(waiting, 101.0)) == 2
    assert len(take_all(waiting, 1000.0)) == 3


def test_queue_is_bounded_and_forgets_what_was_told() -> None:
    """Told long ago makes room; waiting does not."""
    waiting = queue(most=2, repeat_s=10.0)
    keys = [EventKey("ns", name, "", "windows", "Warning") for name in "abc"]
    assert [waiting.put(key, CLUSTER, "m", 0.0) for key in keys] == [True, True, False]
    take_all(waiting, 0.0)
    assert not waiting.put(keys[2], CLUSTER, "m", 5.0)
    assert waiting.put(keys[2], CLUSTER, "m", 10.0)
    assert len(waiting) == 1


def test_queue_put_back_keeps_the_count() -> None:
    """It adds to what came meanwhile."""
    waiting = queue(repeat_s=300.0)
    waiting.put(KEY, CLUSTER, "m", 0.0)
    (due,) = take_all(waiting, 0.0)
    waiting.put(KEY, CLUSTER, "m", 1.0)
    waiting.put_back(due, 1.0, after_s=10.0)
    assert waiting.unsent() == 2
    assert take_all(waiting, 10.0) == []
    (again,) = take_all(waiting, 11.0)
    assert (again.count, again.attempts) == (2, 1)
