"""The upload queue: retries, order, giving up, and a clock that tests can push."""

from __future__ import annotations

import threading
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from collector.shipping.metrics import ShippingMetrics
from collector.shipping.uploads import DeadlineError, Shipper, Urgency
from storage.backend import (
    DeniedError,
    ExistsError,
    IntegrityError,
    StorageError,
    ThrottledError,
    UnavailableError,
)
from storage.local import LocalBackend


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    (tmp_path / "store").mkdir()
    return LocalBackend(tmp_path / "store")


@pytest.mark.parametrize(
    "error", [UnavailableError, ThrottledError, DeniedError, IntegrityError, StorageError]
)
def test_what_may_pass_is_tried_again(backend: LocalBackend, error: type[StorageError]) -> None:
    """Outages, throttling, refused credentials and damage in transit pass; the result arrives."""
    tries = []

    def work() -> str:
        tries.append(1)
        if len(tries) < 4:
            raise error("not yet")
        return "stored"

    shipper = Shipper(backend, first_pause_s=0.001)
    assert shipper.submit("live", work, urgency=Urgency.HOT).result(timeout=5) == "stored"
    assert len(tries) == 4
    shipper.close()


def test_what_cannot_pass_is_told_at_once(backend: LocalBackend) -> None:
    """An object that is there already, and a local file that is not, are not tried again."""
    tries = []

    def exists() -> None:
        tries.append(1)
        raise ExistsError("there")

    shipper = Shipper(backend, first_pause_s=0.001)
    with pytest.raises(ExistsError):
        shipper.submit("live", exists, urgency=Urgency.HOT).result(timeout=5)
    with pytest.raises(FileNotFoundError):
        shipper.submit("log", Path("/nowhere").read_bytes, urgency=Urgency.LOGS).result(timeout=5)
    assert len(tries) == 1
    shipper.close()


def test_urgent_and_small_ones_go_first(backend: LocalBackend) -> None:
    """Manifest, small things, live segments, events, logs by size: the order of a shutdown."""
    order: list[str] = []
    gate = threading.Event()
    shipper = Shipper(backend, threads=1)
    shipper.submit("gate", lambda: gate.wait(5), urgency=Urgency.MANIFEST)
    for name, urgency, size in [
        ("log-9", Urgency.LOGS, 9),
        ("log-1", Urgency.LOGS, 1),
        ("events", Urgency.EVENTS, 99),
        ("live", Urgency.HOT, 0),
        ("snapshot", Urgency.SMALL, 0),
        ("manifest", Urgency.MANIFEST, 0),
    ]:
        work = partial(order.append, name)
        shipper.submit(name, work, urgency=urgency, size_bytes=size)
    last = shipper.submit("delete", lambda: order.append("delete"), urgency=Urgency.CLEANING)
    gate.set()
    last.result(timeout=5)
    assert order == ["manifest", "snapshot", "live", "events", "log-1", "log-9", "delete"]
    shipper.close()


def test_one_failing_upload_holds_up_no_other(backend: LocalBackend) -> None:
    """An upload that waits to be tried again occupies no thread."""

    def fail() -> None:
        raise UnavailableError("down")

    shipper = Shipper(backend, threads=1, first_pause_s=0.01)
    failing = shipper.submit("log", fail, urgency=Urgency.MANIFEST)
    for _ in range(5):
        shipper.submit("live", lambda: None, urgency=Urgency.HOT).result(timeout=2)
    assert not failing.done()
    shipper.close()
    with pytest.raises(DeadlineError):
        failing.result(timeout=2)


def test_pauses_grow_to_a_minute(backend: LocalBackend) -> None:
    """An outage of a day is some 1,500 tries, not a storm: seen on a pushed clock."""
    clock = [0.0]
    tries: list[float] = []

    def fail() -> None:
        tries.append(clock[0])
        raise UnavailableError("down")

    shipper = Shipper(backend, threads=1, monotonic=lambda: clock[0], first_pause_s=1.0)
    shipper.submit("live", fail, urgency=Urgency.HOT)
    for _ in range(12):
        seen = len(tries)
        deadline = time.monotonic() + 5
        while len(tries) == seen and time.monotonic() < deadline:
            clock[0] += 5.0
            with shipper._condition:
                shipper._condition.notify_all()
            time.sleep(0.002)
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert pauses[0] < 10
    assert all(40 < pause < 120 for pause in pauses[-3:])
    shipper.close()


def test_cancelled_upload_is_not_begun(backend: LocalBackend) -> None:
    """At the deadline the caller cancels; what is queued is dropped."""
    gate = threading.Event()
    done: list[int] = []
    shipper = Shipper(backend, threads=1)
    shipper.submit("gate", lambda: gate.wait(5), urgency=Urgency.MANIFEST)
    future = shipper.submit("log", lambda: done.append(1), urgency=Urgency.LOGS)
    assert future.cancel()
    gate.set()
    shipper.submit("delete", lambda: None, urgency=Urgency.CLEANING).result(timeout=5)
    assert done == []
    shipper.close()


def test_hurry_ends_the_pauses(backend: LocalBackend) -> None:
    """At a shutdown nothing waits out a pause of a minute."""
    up = threading.Event()

    def work() -> None:
        if not up.is_set():
            raise UnavailableError("down")

    shipper = Shipper(backend, threads=1, first_pause_s=30.0)
    future = shipper.submit("live", work, urgency=Urgency.HOT)
    time.sleep(0.05)
    up.set()
    shipper.hurry()
    future.result(timeout=5)
    shipper.close()


def test_outcomes_are_counted(backend: LocalBackend) -> None:
    """Successes, tries and failures show in the metrics, with their reason."""
    metrics = ShippingMetrics()
    shipper = Shipper(backend, metrics=metrics, first_pause_s=0.001)
    shipper.submit("live", lambda: None, urgency=Urgency.HOT).result(timeout=5)

    def exists() -> None:
        raise ExistsError("there")

    with pytest.raises(ExistsError):
        shipper.submit("live", exists, urgency=Urgency.HOT).result(timeout=5)
    shipper.close()
    value = metrics.registry.get_sample_value
    assert value("rayhistory_collector_uploads_total", {"kind": "live"}) == 1
    failures = {"kind": "live", "reason": "refused"}
    assert value("rayhistory_collector_upload_failures_total", failures) == 1
