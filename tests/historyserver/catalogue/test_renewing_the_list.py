"""The list is renewed when it is old, by one thread, reading what changed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from historyserver.catalogue import Catalogue
from historyserver.catalogue.watching import RenewalOutcome
from storage.backend import UnavailableError
from storage.faults import Fault, FaultyBackend, Verb
from storage.layout import (
    catalogue_key,
    marker_key,
)
from storage.local import LocalBackend
from tests.historyserver.catalogue.conftest import Clock
from tests.historyserver.catalogue.written import (
    CatalogueOf,
    put_entry,
    put_events,
    ref_of,
    told,
)
from tests.historyserver.reading.stored import OurWriter


def test_the_list_is_renewed_when_it_is_old(
    store: LocalBackend, catalogue_of: CatalogueOf, clock: Clock
) -> None:
    """Within the time to live no call reaches the store."""
    put_entry(store, ref_of(1), ended_ms=5)
    counting = FaultyBackend(store)
    catalogue = catalogue_of(counting)
    assert len(catalogue.sessions()) == 1
    before = len(counting.calls)
    put_entry(store, ref_of(2), ended_ms=5)
    clock.now_s = 9.9
    assert len(catalogue.sessions()) == 1
    assert catalogue.find("ml", "raycluster", "rl", ref_of(1).session) is not None
    assert len(counting.calls) == before
    clock.now_s = 10
    assert len(catalogue.sessions()) == 2


def test_a_renewal_reads_only_what_changed(
    store: LocalBackend, catalogue_of: CatalogueOf, clock: Clock
) -> None:
    """Entries are kept by their etag; a changed one is read again, one deleted is dropped."""
    for number in range(20):
        put_entry(store, ref_of(number), ended_ms=5)
    counting = FaultyBackend(store)
    catalogue = catalogue_of(counting)
    catalogue.sessions()
    counting.calls.clear()
    put_entry(store, ref_of(7), ended_ms=9_000)
    store.delete(catalogue_key(ref_of(8)))
    clock.now_s = 10
    entries = catalogue.sessions()
    assert [key for verb, key in counting.calls if verb is Verb.GET] == [catalogue_key(ref_of(7))]
    assert len(entries) == 19
    assert [entry.end_ms for entry in entries if entry.ref == ref_of(7)] == [9_000]


def test_a_name_that_is_newer_than_the_list_is_looked_for(
    store: LocalBackend, catalogue_of: CatalogueOf, clock: Clock
) -> None:
    """Unmarked sessions come with the scan of folders, which is rarer than the list."""
    catalogue = catalogue_of(store)
    assert catalogue.sessions() == []
    put_events(store, ref_of(1))
    clock.now_s = 11
    assert catalogue.sessions() == []
    found = catalogue.find("ml", "raycluster", "rl", ref_of(1).session)
    assert found is not None
    assert told(found) == ("running", "fresh_objects")


def test_a_failing_store_leaves_the_old_list(
    store: LocalBackend, catalogue_of: CatalogueOf, clock: Clock
) -> None:
    """And is not asked again at once; with no list yet, the failure is told."""
    put_entry(store, ref_of(1), ended_ms=5)
    faulty = FaultyBackend(store)
    catalogue = catalogue_of(faulty)
    faulty.plan = [Fault(verb=Verb.LIST, error=UnavailableError, times=None)]
    with pytest.raises(UnavailableError):
        catalogue.sessions()
    faulty.plan = []
    assert len(catalogue.sessions()) == 1
    faulty.plan = [Fault(verb=Verb.LIST, error=UnavailableError, times=None)]
    clock.now_s = 10
    assert len(catalogue.sessions()) == 1
    asked = len(faulty.calls)
    assert len(catalogue.sessions()) == 1
    assert len(faulty.calls) == asked
    faulty.plan = []
    put_entry(store, ref_of(2), ended_ms=5)
    clock.now_s = 20
    assert len(catalogue.sessions()) == 2


class Renewals:
    """Remembers what came of each renewal."""

    def __init__(self) -> None:
        self.outcomes: list[RenewalOutcome] = []

    def renewed(self, outcome: RenewalOutcome) -> None:
        """See `CatalogueWatch`."""
        self.outcomes.append(outcome)


def test_renewals_are_counted_and_the_list_has_an_age(
    store: LocalBackend, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old list that still serves is seen from outside."""
    faulty, seen = FaultyBackend(store), Renewals()
    catalogue = Catalogue(faulty, watch=seen, monotonic_s=clock)
    assert catalogue.age_s() == float("inf")
    faulty.plan = [Fault(verb=Verb.LIST, error=UnavailableError, times=None)]
    with pytest.raises(UnavailableError):
        catalogue.sessions()
    assert catalogue.age_s() == float("inf")
    faulty.plan = []
    catalogue.sessions()
    faulty.plan = [Fault(verb=Verb.LIST, error=UnavailableError, times=None)]
    clock.now_s += 30
    catalogue.sessions()
    assert catalogue.age_s() == 30
    monkeypatch.setattr("historyserver.catalogue.catalogue.marked", lambda *_: 1 / 0)
    clock.now_s += 30
    with pytest.raises(ZeroDivisionError):
        catalogue.sessions()
    assert [outcome.value for outcome in seen.outcomes] == [
        "storage_failed", "renewed", "storage_failed", "failed",
    ]  # fmt: skip


def test_one_thread_renews_and_the_others_do_not_wait(
    store: LocalBackend, catalogue_of: CatalogueOf, clock: Clock
) -> None:
    """They get the list as it was."""
    put_entry(store, ref_of(1), ended_ms=5)
    faulty = FaultyBackend(store)
    catalogue = catalogue_of(faulty)
    catalogue.sessions()
    lists = sum(verb is Verb.LIST for verb, _ in faulty.calls)
    faulty.plan = [Fault(verb=Verb.LIST, delay_s=1.5)]
    clock.now_s = 10
    renewing = threading.Thread(target=catalogue.sessions)
    renewing.start()
    time.sleep(0.1)
    for _ in range(20):
        assert len(catalogue.sessions()) == 1
    assert renewing.is_alive()
    renewing.join()
    renewed = sum(verb is Verb.LIST for verb, _ in faulty.calls) - lists
    assert renewed <= lists


def test_the_first_list_is_made_once_for_all_threads(
    store: LocalBackend, catalogue_of: CatalogueOf
) -> None:
    """A server that starts under load does not list the bucket once per request."""
    put_entry(store, ref_of(1), ended_ms=5)
    alone = FaultyBackend(store)
    catalogue_of(alone).sessions()
    faulty = FaultyBackend(store, [Fault(verb=Verb.LIST, delay_s=0.2)])
    catalogue = Catalogue(faulty)
    sizes: list[int] = []
    threads = [
        threading.Thread(target=lambda: sizes.append(len(catalogue.sessions()))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == [1] * 8
    assert len(faulty.calls) == len(alone.calls)


def test_sessions_may_be_written_while_they_are_listed(store: LocalBackend) -> None:
    """Every list is whole: what was there before it began is in it."""
    catalogue = Catalogue(store, ttl_s=0, scan_s=0)
    written = threading.Event()

    def write() -> None:
        for number in range(40):
            put_entry(store, ref_of(number), ended_ms=number % 2)
            OurWriter(store, ref_of(number)).start()
            put_events(store, ref_of(number))
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while not written.is_set():
        size = len(catalogue.sessions())
        assert size >= seen
        seen = size
    writer.join()
    assert len(catalogue.sessions()) == 40


def test_ten_thousand_sessions_are_listed_quickly(tmp_path: Path, clock: Clock) -> None:
    """All of them, not the newest hundred; a renewal touches the markers only."""
    refs = [ref_of(number // 500, f"c{number % 500}") for number in range(10_000)]
    for ref in refs:
        path = tmp_path / marker_key(ref)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    catalogue = Catalogue(LocalBackend(tmp_path), monotonic_s=time.perf_counter, ttl_s=0)
    started_s = time.process_time()
    assert len(catalogue.sessions()) == 10_000
    first_s = time.process_time() - started_s
    started_s = time.process_time()
    found = catalogue.find("ml", "raycluster", "c77", refs[577].session)
    known_s = time.process_time() - started_s
    assert found is not None
    assert first_s < 10
    assert known_s < 0.005
