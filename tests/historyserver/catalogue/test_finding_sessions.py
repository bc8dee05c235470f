"""Every session in storage is listed once, marked or not, and found by all of its names."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from historyserver.catalogue import Catalogue
from storage.faults import FaultyBackend, Verb
from storage.layout import (
    SessionRef,
    catalogue_key,
    end_key,
    legacy_marker_key,
    marker_key,
    session_started_ms,
)
from storage.local import LocalBackend
from storage.wire import CatalogueEntry, encode_catalogue_entry
from tests.historyserver.catalogue.conftest import Clock
from tests.historyserver.catalogue.written import (
    CatalogueOf,
    put_entry,
    put_events,
    ref_of,
    told,
)
from tests.historyserver.reading.stored import V162, V170, OurWriter, objects_below


def test_an_owner_that_cannot_be_one_is_counted(
    store: LocalBackend, catalogue_of: CatalogueOf
) -> None:
    """The session is listed without it."""
    entry = CatalogueEntry(
        namespace="ml", cluster="rl", owner_kind="RayJob", owner_name="no/such name",
        session=ref_of(1).session, started_ms=1, ended_ms=2, state="ended",
    )  # fmt: skip
    store.put(catalogue_key(ref_of(1)), encode_catalogue_entry(entry))
    catalogue = catalogue_of(store)
    assert [entry.ref for entry in catalogue.sessions()] == [ref_of(1)]
    assert catalogue.skips.counts() == {"bad_owner": 1}


def test_the_sessions_of_both_released_collectors_are_listed(
    samples: LocalBackend, catalogue_of: CatalogueOf
) -> None:
    """Also the one under the root `log`, with no root set."""
    entries = catalogue_of(samples).sessions()
    assert [(e.ref, *told(e)) for e in entries] == [
        (V162, "ended", "head_logs"),
        (V170, "ended", "head_logs"),
    ]
    assert [(e.start_ms, e.end_ms, e.size_bytes) for e in entries] == [
        (1796075170967, None, None),
        (1796075170843, None, None),
    ]


@pytest.mark.parametrize("kept", ["cluster-history/", "log/v162_ml/"])
def test_a_session_that_was_never_marked_is_listed_and_found(
    store: LocalBackend, sample_tree: Path, catalogue_of: CatalogueOf, kept: str
) -> None:
    """The collector was killed before it wrote the marker: by name and by `latest`."""
    for key, body in objects_below(sample_tree).items():
        if key.startswith(kept):
            store.put(key, body)
    ref = V170 if kept == "cluster-history/" else V162
    catalogue = catalogue_of(store)
    assert [entry.ref for entry in catalogue.sessions()] == [ref]
    (entry,) = catalogue.sessions()
    assert catalogue.find("ml", "raycluster", ref.cluster, ref.session) == entry
    assert catalogue.latest("ml", "raycluster", ref.cluster) == entry


def test_a_session_with_several_signs_is_listed_once(
    store: LocalBackend, catalogue_of: CatalogueOf
) -> None:
    """Entry, markers with and without owner, and data: one row, with the owner."""
    bare = ref_of(1)
    owned = SessionRef(bare.namespace, bare.cluster, bare.session, "rayjob", "nightly")
    put_entry(store, bare, ended_ms=9_000)
    store.put(marker_key(bare), b"")
    store.put(marker_key(owned), b"")
    store.put(legacy_marker_key(bare), b"")
    put_events(store, bare)
    put_events(store, owned)
    catalogue = catalogue_of(store)
    (entry,) = catalogue.sessions()
    assert entry.ref == owned
    assert catalogue.latest("ml", "raycluster", "rl") == entry
    assert catalogue.latest("ml", "RayJob", "nightly") == entry
    assert catalogue.latest("ml", "rayservice", "nightly") is None


def test_an_entry_tells_times_size_and_owner(
    store: LocalBackend, catalogue_of: CatalogueOf
) -> None:
    """Nothing else is read of a session that has ended."""
    ref = SessionRef("ml", "rl", ref_of(1).session, "rayservice", "chat")
    start_ms = session_started_ms(ref.session)
    put_entry(store, ref, ended_ms=start_ms + 60_000, size_bytes=5_000)
    counting = FaultyBackend(store)
    (entry,) = catalogue_of(counting).sessions()
    assert (entry.ref, told(entry)) == (ref, ("ended", "end_marker"))
    assert (entry.start_ms, entry.duration_ms, entry.size_bytes) == (start_ms, 60_000, 5_000)
    read = [key for verb, key in counting.calls if verb in {Verb.GET, Verb.GET_RANGE}]
    assert read == [catalogue_key(ref)]


@pytest.mark.parametrize(
    ("age_s", "expected"),
    [(0, ("running", "fresh_manifest")), (300, ("unclean", "stale_manifest"))],
)
def test_a_session_without_an_end_runs_or_broke_off(
    store: LocalBackend, clock: Clock, age_s: int, expected: tuple[str, str]
) -> None:
    """The age of the manifests tells which."""
    ref = ref_of(1)
    put_entry(store, ref)
    writer = OurWriter(store, ref)
    writer.start()
    writer.manifest(updated_ms=5_000)
    catalogue = Catalogue(store, monotonic_s=clock, now_s=lambda: time.time() + age_s)
    (entry,) = catalogue.sessions()
    assert told(entry) == expected
    assert entry.end_ms == (None if age_s == 0 else 5_000)
    live = catalogue.running("ml", "raycluster", "rl")
    assert (live is not None) is (age_s == 0)


def test_an_end_marker_counts_before_its_entry_is_written(
    store: LocalBackend, catalogue_of: CatalogueOf
) -> None:
    """end.json is there, the catalogue still says `running`."""
    put_entry(store, ref_of(1))
    writer = OurWriter(store, ref_of(1))
    writer.start(owner=("rayjob", "nightly"))
    writer.end(ended_ms=8_000)
    (entry,) = catalogue_of(store).sessions()
    assert (*told(entry), entry.end_ms) == ("ended", "end_marker", 8_000)
    assert entry.ref.owner_name == "nightly"


def test_a_collector_that_comes_back_reopens_the_session(
    store: LocalBackend, catalogue_of: CatalogueOf, clock: Clock
) -> None:
    """Its restart removes end.json and renews the entry."""
    put_entry(store, ref_of(1))
    writer = OurWriter(store, ref_of(1))
    writer.start()
    writer.end()
    catalogue = catalogue_of(store)
    assert told(catalogue.sessions()[0]) == ("ended", "end_marker")
    store.delete(end_key(ref_of(1)))
    writer.manifest()
    put_entry(store, ref_of(1))
    clock.now_s = 10
    assert told(catalogue.sessions()[0]) == ("running", "fresh_manifest")


def test_our_session_without_an_entry_is_found_by_its_folder(
    store: LocalBackend, catalogue_of: CatalogueOf
) -> None:
    """The collector died between its first two writes."""
    OurWriter(store, ref_of(1)).start()
    (entry,) = catalogue_of(store).sessions()
    assert entry.ref == ref_of(1)


def test_latest_is_the_newest_start(store: LocalBackend, catalogue_of: CatalogueOf) -> None:
    """Of this cluster and namespace only."""
    for ref in (ref_of(3), ref_of(5), ref_of(4), ref_of(9, "other"), ref_of(9, "rl", "other")):
        store.put(marker_key(ref), b"")
    catalogue = catalogue_of(store)
    latest = catalogue.latest("ml", "raycluster", "rl")
    assert latest is not None
    assert latest.ref == ref_of(5)
    assert [entry.ref for entry in catalogue.sessions()][-1] == ref_of(3)
    assert catalogue.find("ml", "raycluster", "rl", ref_of(6).session) is None
    assert catalogue.latest("ml", "raycluster", "r") is None


def test_old_sessions_stay_reachable_while_a_new_one_runs(
    store: LocalBackend, catalogue_of: CatalogueOf
) -> None:
    """KubeRay's server turns every name of an existing cluster into `live`."""
    for number in (1, 2):
        OurWriter(store, ref_of(number)).start()
    catalogue = catalogue_of(store)
    old = catalogue.find("ml", "raycluster", "rl", ref_of(1).session)
    live = catalogue.running("ml", "raycluster", "rl")
    assert old is not None
    assert live is not None
    assert (old.ref, live.ref) == (ref_of(1), ref_of(2))


def test_a_session_that_goes_on_after_a_quiet_time_runs_again(tmp_path: Path, clock: Clock) -> None:
    """KubeRay stores no end, so silence is only a guess and is looked at again."""
    start_s = time.time()
    store = LocalBackend(tmp_path)
    store.put(marker_key(ref_of(1)), b"")
    catalogue = Catalogue(store, monotonic_s=clock, now_s=lambda: start_s + clock.now_s)
    assert told(catalogue.sessions()[0]) == ("running", "fresh_objects")
    clock.now_s = 1_000
    assert told(catalogue.sessions()[0]) == ("ended", "marked_and_quiet")
    put_events(store, ref_of(1))
    for path in tmp_path.rglob("*.jsonl"):
        os.utime(path, (start_s + 1_050, start_s + 1_050))
    clock.now_s = 1_200
    assert told(catalogue.sessions()[0]) == ("running", "fresh_objects")


def test_keys_that_name_no_session_are_counted(
    store: LocalBackend, catalogue_of: CatalogueOf
) -> None:
    """They do not hide the sessions beside them, and repeat neither in counts nor in the log."""
    store.put("cluster-metadata/raycluster/ml_rl/not-a-session", b"")
    store.put("cluster-metadata/rayjob/ml_rl/session_2026-11-01_10-00-01_000001_7", b"")
    store.put("history/v1/catalogue/someday/ml/rl/x.json", b"")
    store.put(catalogue_key(ref_of(1)), b"{")
    store.put(marker_key(ref_of(2)), b"")
    put_entry(store, ref_of(3), ended_ms=5)
    catalogue = catalogue_of(store)
    assert [entry.ref for entry in catalogue.sessions()] == [ref_of(3), ref_of(2), ref_of(1)]
    assert catalogue.skips.counts() == {
        "bad_marker": 2,
        "bad_catalogue_key": 1,
        "bad_catalogue_entry": 1,
    }


def test_an_entry_with_an_impossible_owner_is_listed_without(
    store: LocalBackend, catalogue_of: CatalogueOf
) -> None:
    """One bad document must not take down the list."""
    entry = CatalogueEntry(
        namespace="ml",
        cluster="rl",
        owner_kind="rayjob",
        owner_name="../../x",
        session=ref_of(1).session,
        started_ms=1,
        ended_ms=2,
        state="ended",
    )
    store.put(catalogue_key(ref_of(1)), encode_catalogue_entry(entry))
    assert [entry.ref for entry in catalogue_of(store).sessions()] == [ref_of(1)]
