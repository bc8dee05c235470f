"""The local copy follows the API server through every way a watch can end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.webhook.kube.api_double import Answer, ApiDouble, Asked, refusal
from tests.webhook.kube.conftest import Sample, Wait
from webhook.kube import watching
from webhook.kube.backoff import Backoff, jittered_s
from webhook.kube.client import Api
from webhook.kube.clusters import PATH, ClusterCopy, of_use
from webhook.kube.metrics import KubeMetrics
from webhook.kube.watching import Watch

Start = Callable[..., Watch]


@pytest.fixture
def copy() -> ClusterCopy:
    """Keeps our annotations."""
    return ClusterCopy(of_use("rayhistory.io/inject"))


@pytest.fixture
def start(api: Api, metrics: KubeMetrics, copy: ClusterCopy) -> Iterator[Start]:
    """Starts the watch, with short waits."""
    started: list[Watch] = []

    def begin(**options: Any) -> Watch:
        options.setdefault("backoff", Backoff(first_s=0.02, most_s=0.1))
        watch = Watch("rayclusters", PATH, copy=copy, api=api, metrics=metrics, **options)
        started.append(watch)
        watch.start()
        return watch

    yield begin
    for watch in started:
        watch.stop()
        watch.join(5)


def annotation(copy: ClusterCopy, name: str) -> str | None:
    """What the copy says of one cluster."""
    found = copy.get("ns", name)
    return None if found is None else found.annotations.get("rayhistory.io/inject", "")


def test_lists_all_pages_then_follows_changes(
    double: ApiDouble, copy: ClusterCopy, start: Start, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is small; a change arrives without asking again."""
    monkeypatch.setattr(watching, "_PAGE", 2)
    for number in range(5):
        double.put(PATH, f"c{number}", namespace="ns")
    watch = start()
    wait(watch.synced)
    assert len(copy) == 5
    double.put(PATH, "c1", namespace="ns", annotations={"rayhistory.io/inject": "true", "x": "y"})
    double.put(PATH, "new", namespace="ns")
    double.delete(PATH, "c4", namespace="ns")
    wait(lambda: copy.get("ns", "c4") is None)
    assert (len(copy), annotation(copy, "c1")) == (5, "true")
    assert len(double.requests("GET", PATH)) == 4


def test_asks_for_metadata_only_with_bookmarks(double: ApiDouble, start: Start, wait: Wait) -> None:
    """The specs of a thousand RayClusters would be megabytes."""
    double.collection(PATH)
    wait(start().synced)
    wait(lambda: double.collection(PATH).watches)
    listed, watched = double.requests("GET", PATH)
    assert listed.headers["Accept"].startswith("application/json;as=PartialObjectMetadataList;")
    assert watched.headers["Accept"].startswith("application/json;as=PartialObjectMetadata;")
    assert (
        watched.query["allowWatchBookmarks"] == "1"
        or watched.query["allowWatchBookmarks"] == "true"
    )
    assert 300 <= int(watched.query["timeoutSeconds"]) <= 600


def test_resumes_from_the_last_bookmark(
    double: ApiDouble, copy: ClusterCopy, start: Start, wait: Wait
) -> None:
    """Without listing again, though nothing of this kind changed for long."""
    double.put(PATH, "one", namespace="ns")
    wait(start().synced)
    double.bookmark(PATH)
    newest = str(double.version)
    collection = double.collection(PATH)
    wait(lambda: collection.watches)
    time.sleep(0.1)
    double.end_watches(PATH)
    wait(lambda: len(collection.watches) == 2)
    assert (collection.watches[-1], collection.lists) == (newest, 1)
    double.put(PATH, "two", namespace="ns")
    wait(lambda: copy.get("ns", "two"))


def test_lists_again_when_its_place_is_gone(
    double: ApiDouble, copy: ClusterCopy, start: Start, wait: Wait, sample: Sample
) -> None:
    """410: what vanished meanwhile is forgotten, what came is there."""
    double.put(PATH, "old", namespace="ns")
    wait(start().synced)
    collection = double.collection(PATH)
    wait(lambda: collection.watches)
    del collection.objects["ns/old"]
    double.put(PATH, "other", namespace="elsewhere")
    double.end_watches(PATH, forget=True)
    double.put(PATH, "new", namespace="ns")
    wait(lambda: copy.get("ns", "new"))
    assert copy.get("ns", "old") is None
    wait(lambda: collection.lists == 2)
    assert sample("watch_ends_total", resource="rayclusters", cause="expired") == 1


def test_begins_the_list_anew_when_a_page_expires(
    double: ApiDouble, copy: ClusterCopy, start: Start, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of many pages may outlive its version."""
    monkeypatch.setattr(watching, "_PAGE", 1)
    once = [refusal(410, "Expired", "The provided continue parameter is too old")]

    def expire(asked: Asked) -> Answer | None:
        return once.pop() if asked.query.get("continue") == "2" and once else None

    double.rules.append(expire)
    for number in range(4):
        double.put(PATH, f"c{number}", namespace="ns")
    wait(start().synced)
    assert (len(copy), double.collection(PATH).lists) == (4, 2)


def test_a_kind_that_is_not_installed_is_empty_and_asked_again(
    double: ApiDouble,
    copy: ClusterCopy,
    start: Start,
    wait: Wait,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """KubeRay may come after us: no noise, no unreadiness, and it is noticed."""
    with caplog.at_level(logging.INFO, logger="webhook.kube"):
        watch = start(not_installed_s=0.05)
        wait(lambda: len(double.requests("GET", PATH)) >= 3)
        assert (watch.synced(), watch.problem(), len(copy)) == (True, "", 0)
        assert sum("not installed" in line for line in caplog.messages) == 1
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
        double.put(PATH, "one", namespace="ns")
        wait(lambda: copy.get("ns", "one"))


def test_a_kind_that_is_removed_is_empty(
    double: ApiDouble, copy: ClusterCopy, start: Start, wait: Wait
) -> None:
    """The CRD was deleted while it was followed."""
    double.put(PATH, "one", namespace="ns")
    wait(start(not_installed_s=0.05).synced)
    wait(lambda: double.collection(PATH).watches)
    gone = double.collections.pop(PATH)
    gone.generation += 1
    wait(lambda: len(copy) == 0)


def test_a_missing_right_is_a_problem_with_kubernetes_words(
    double: ApiDouble, start: Start, wait: Wait, sample: Sample
) -> None:
    """Readiness says what the operator must repair; after that it goes on by itself."""
    double.collection(PATH)
    double.rules.append(lambda _: refusal(403, "Forbidden", "rayclusters is forbidden: no"))
    watch = start()
    wait(lambda: "rayclusters is forbidden" in watch.problem())
    assert not watch.synced()
    assert sample("watch_ends_total", resource="rayclusters", cause="refused") >= 1
    double.rules.clear()
    wait(watch.synced)
    assert watch.problem() == ""


def test_a_dead_connection_is_noticed(
    double: ApiDouble, copy: ClusterCopy, start: Start, wait: Wait, sample: Sample
) -> None:
    """No bookmark for too long: a new connection resumes at the same place."""
    double.put(PATH, "one", namespace="ns")
    wait(start(idle_s=0.3).synced)
    collection = double.collection(PATH)
    wait(lambda: len(collection.watches) >= 2)
    assert collection.watches[0] == collection.watches[1]
    assert collection.lists == 1
    assert sample("watch_ends_total", resource="rayclusters", cause="broken") >= 1
    assert len(copy) == 1


def test_a_line_that_cannot_be_read_does_not_stop_it(
    double: ApiDouble, copy: ClusterCopy, start: Start, wait: Wait
) -> None:
    """It lists again when the same place fails again and again."""
    double.put(PATH, "one", namespace="ns")
    wait(start().synced)
    wait(lambda: double.collection(PATH).watches)
    double.say(PATH, {"type": 7, "object": {}})
    double.put(PATH, "two", namespace="ns")
    wait(lambda: copy.get("ns", "two"))
    assert double.collection(PATH).lists == 2


def test_a_server_error_in_the_watch_is_resumed(
    double: ApiDouble, copy: ClusterCopy, start: Start, wait: Wait
) -> None:
    """Etcd's leader changed, say: an ERROR line that is not 410."""
    double.put(PATH, "one", namespace="ns")
    wait(start().synced)
    wait(lambda: double.collection(PATH).watches)
    double.say(PATH, {"type": "ERROR", "object": {"code": 500, "message": "etcd"}})
    double.put(PATH, "two", namespace="ns")
    wait(lambda: copy.get("ns", "two"))


def test_an_outage_leaves_the_copy_and_readiness(
    double: ApiDouble, copy: ClusterCopy, start: Start, wait: Wait
) -> None:
    """Reviews go on with what is known; a restart of all replicas would help nobody."""
    double.put(PATH, "one", namespace="ns")
    watch = start()
    wait(watch.synced)
    double.rules.append(lambda _: refusal(503, "ServiceUnavailable", "starting"))
    double.end_watches(PATH)
    asked = len(double.asked)
    wait(lambda: len(double.asked) > asked + 3)
    assert (watch.synced(), len(copy)) == (True, 1)
    double.rules.clear()
    double.put(PATH, "two", namespace="ns")
    wait(lambda: copy.get("ns", "two"))


def test_watches_that_end_at_once_do_not_make_a_storm(
    double: ApiDouble, start: Start, wait: Wait
) -> None:
    """A broken proxy that closes each watch is asked ever more slowly."""
    double.collection(PATH)

    def close(asked: Asked) -> Answer | None:
        return Answer(200, b"") if asked.query.get("watch") else None

    double.rules.append(close)
    wait(start(backoff=Backoff(first_s=0.1, most_s=10)).synced)
    time.sleep(1)
    assert 2 <= len(double.asked) <= 7


def test_stops_while_it_waits_for_a_line(
    double: ApiDouble, start: Start, wait: Wait, caplog: pytest.LogCaptureFixture
) -> None:
    """A roll-out must not wait for the end of a watch."""
    double.collection(PATH)
    watch = start()
    wait(lambda: double.collection(PATH).watches)
    time.sleep(0.1)
    began_s = time.monotonic()
    watch.stop()
    watch.join(5)
    assert time.monotonic() - began_s < 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_shows_how_many_it_holds_and_how_long_it_heard_nothing(
    double: ApiDouble, start: Start, wait: Wait, sample: Sample
) -> None:
    """An alert on silence finds a copy that grows old."""
    double.put(PATH, "one", namespace="ns")
    wait(start().synced)
    assert sample("watched_objects", resource="rayclusters") == 1
    assert 0 < sample("watch_silence_seconds", resource="rayclusters") < 5


def test_waits_double_up_to_a_limit_and_are_never_the_same() -> None:
    """Each wait is between half and all of the doubled time."""
    backoff = Backoff(first_s=1, most_s=8)
    waits = [backoff.next_s() for _ in range(6)]
    for wait_s, most_s in zip(waits, (1, 2, 4, 8, 8, 8), strict=True):
        assert most_s / 2 <= wait_s <= most_s
    backoff.reset()
    assert backoff.next_s() <= 1
    assert len({jittered_s(1) for _ in range(20)}) > 1
