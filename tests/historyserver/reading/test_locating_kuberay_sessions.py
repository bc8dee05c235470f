"""Sessions that KubeRay's collectors wrote are found whole, in every generation's layout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from historyserver.reading.damage import DamageLog
from historyserver.reading.events import open_events
from historyserver.reading.locate import locate
from historyserver.reading.logs import read_log
from historyserver.reading.snapshots import read_snapshot
from historyserver.reading.source import SessionSource
from storage.backend import Backend, NotFoundError
from storage.layout import SessionRef, kuberay_session_prefix, marker_key
from storage.local import LocalBackend
from tests.historyserver.reading.stored import (
    V162,
    V170,
    objects_below,
    put_as_b,
    put_as_c_minus,
)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def event_ids(backend: Backend, source: SessionSource) -> list[str]:
    damage = DamageLog()
    ids = [
        json.loads(line)["eventId"]
        for file in source.event_files
        for block in open_events(backend, file, damage)
        for line in block.splitlines()
    ]
    assert not damage.items
    return sorted(ids)


def ids_in_tree(tree: Path, top: str) -> list[str]:
    ids = []
    for key, body in objects_below(tree / top).items():
        if "/node_events/" in key or "/job_events/" in key:
            is_array = body[:1] == b"["
            events = json.loads(body) if is_array else map(json.loads, body.splitlines())
            ids += [event["eventId"] for event in events]
    return sorted(ids)


@pytest.mark.parametrize(
    ("ref", "top", "generation"), [(V162, "log", "A"), (V170, "cluster-history", "C")]
)
def test_all_that_a_released_collector_wrote_is_found(
    samples: LocalBackend, sample_tree: Path, ref: SessionRef, top: str, generation: str
) -> None:
    """Every event, log byte and answer of the bucket, compared with its files."""
    source = locate(samples, ref)
    assert (source.session, source.generation) == (ref, generation)
    assert event_ids(samples, source) == ids_in_tree(sample_tree, top)
    assert len(event_ids(samples, source)) == {"A": 87, "C": 89}[generation]
    stored = objects_below(sample_tree / top)
    logs = {key: body for key, body in stored.items() if "/logs/" in key}
    assert len(source.log_files) == len(logs)
    for log in source.log_files:
        (key,) = [k for k in logs if log.node_id in k and k.endswith(f"/{log.path}")]
        assert b"".join(read_log(samples, log.parts)) == logs[key]
        assert log.size_bytes == len(logs[key])
    answers = {key: body for key, body in stored.items() if "/fetched_endpoints/" in key}
    bodies = [read_snapshot(samples, snapshot) for snapshot in source.snapshots]
    assert sorted(b[1] for b in bodies if b) == sorted(answers.values())
    assert source.damage == ()


def test_kept_answers_have_the_names_of_their_requests(samples: LocalBackend) -> None:
    """As our own snapshots are named, query included."""
    assert [snapshot.name for snapshot in locate(samples, V170).snapshots] == [
        "/api/v0/cluster_metadata",
        "/api/v0/placement_groups?detail=1&limit=10000",
        "/timezone",
    ]


def test_the_start_is_told_by_the_name_and_the_end_by_nobody(samples: LocalBackend) -> None:
    """KubeRay stores no end; inventing one from the times of files breaks when they are copied."""
    source = locate(samples, V170)
    assert source.start_ms == 1796075170843
    assert source.end_ms == 0


def test_generation_b_is_read(
    samples: LocalBackend, store: LocalBackend, sample_tree: Path
) -> None:
    """The nightlies until 2026-07-30: gzip arrays in the old tree, the marker in the new one."""
    put_as_b(objects_below(sample_tree / "log"), store)
    source = locate(store, V162)
    assert source.generation == "B"
    assert event_ids(store, source) == ids_in_tree(sample_tree, "log")
    assert len(source.log_files) == len(locate(samples, V162).log_files)


def test_early_generation_b_is_told_by_its_marker(store: LocalBackend, sample_tree: Path) -> None:
    """Until 2026-06-18 its event files were those of A."""
    for key, body in objects_below(sample_tree / "log").items():
        if not key.startswith("metadir/"):
            store.put(key, body)
    store.put(marker_key(V162), b"")
    assert locate(store, V162).generation == "B"


def test_generation_c_minus_is_read(
    samples: LocalBackend, store: LocalBackend, sample_tree: Path
) -> None:
    """The nightlies until 2026-08-05: the new tree with hourly gzip arrays."""
    top = sample_tree
    stored = {k: v for k, v in objects_below(top).items() if k.startswith("cluster-")}
    put_as_c_minus(stored, store)
    source = locate(store, V170)
    assert source.generation == "C-"
    assert event_ids(store, source) == ids_in_tree(sample_tree, "cluster-history")
    assert len(source.log_files) == len(locate(samples, V170).log_files)


def test_an_owned_session_is_found_with_its_owner(store: LocalBackend, sample_tree: Path) -> None:
    """A cluster of a RayJob lies under the owner's name; one adopted later under both."""
    owned = SessionRef(V170.namespace, V170.cluster, V170.session, "rayjob", "nightly")
    for key, body in objects_below(sample_tree).items():
        if key.startswith("cluster-history/"):
            new_key = key.replace(kuberay_session_prefix(V170), kuberay_session_prefix(owned))
            keeps_old = "/node_events/" in key
            store.put(key if keeps_old else new_key, body)
    source = locate(store, owned)
    assert event_ids(store, source) == ids_in_tree(sample_tree, "cluster-history")
    assert source.session == owned


def test_a_session_in_two_roots_is_one(store: LocalBackend, sample_tree: Path) -> None:
    """v1.6 examples write under the root `log`, those of v1.7 under the bucket's."""
    for key, body in objects_below(sample_tree / "log").items():
        in_log = "/job_events/" in key or key.startswith("metadir/")
        store.put(f"log/{key}" if in_log else key, body)
    assert event_ids(store, locate(store, V162)) == ids_in_tree(sample_tree, "log")


def test_a_root_that_is_set_is_honoured(sample_tree: Path) -> None:
    """The storage root may be `log` itself."""
    backend = LocalBackend(sample_tree, root="log")
    assert event_ids(backend, locate(backend, V162)) == ids_in_tree(sample_tree, "log")


def test_neither_marker_nor_logs_are_needed(store: LocalBackend, sample_tree: Path) -> None:
    """The collector was killed: events are there, and nobody said that the session exists."""
    for key, body in objects_below(sample_tree).items():
        if key.startswith("cluster-history/") and "_events/" in key:
            store.put(key, body)
    source = locate(store, V170)
    assert event_ids(store, source) == ids_in_tree(sample_tree, "cluster-history")
    assert source.state == "running"


@pytest.mark.parametrize(
    ("age_ms", "with_marker", "with_logs", "state", "reason", "settled"),
    [
        (0, True, True, "ended", "head_logs", False),
        (3 * MINUTE_MS, False, True, "ended", "head_logs", True),
        (9 * MINUTE_MS, True, False, "running", "fresh_objects", False),
        (9 * MINUTE_MS, False, False, "running", "fresh_objects", False),
        (11 * MINUTE_MS, True, False, "ended", "marked_and_quiet", False),
        (11 * MINUTE_MS, False, False, "unclean", "unmarked_and_quiet", False),
        (25 * HOUR_MS, True, False, "ended", "marked_and_quiet", True),
        (25 * HOUR_MS, False, False, "unclean", "unmarked_and_quiet", True),
    ],
)
def test_the_state_is_told_by_logs_marker_and_age(
    store: LocalBackend,
    age_ms: int,
    with_marker: bool,
    with_logs: bool,
    state: str,
    reason: str,
    settled: bool,
) -> None:
    """KubeRay stores no end; see `reading.state` for the rules."""
    node = "c" * 56
    info = store.put(
        f"{kuberay_session_prefix(V170)}{node}/node_events/{node}-2026-11-30-21-1.jsonl", b""
    )
    if with_marker:
        store.put(marker_key(V170), b"")
    if with_logs:
        info = store.put(f"{kuberay_session_prefix(V170)}{node}/logs/gcs_server.out", b"")
    source = locate(store, V170, now_ms=info.modified_ms + age_ms)
    assert (source.state, source.reason, source.settled) == (state, reason, settled)


def test_a_lone_marker_is_a_session_without_content(store: LocalBackend) -> None:
    """It can be opened, and shows nothing, rather than an error."""
    store.put(marker_key(V170), b"")
    source = locate(store, V170)
    assert (source.generation, source.event_files, source.log_files) == ("C", (), ())


def test_an_unknown_session_is_not_found(samples: LocalBackend) -> None:
    """Also when only the namespace differs."""
    for ref in (
        SessionRef("ml", "v170", "session_2026-11-30_21-46-10_843036_1"),
        SessionRef("other", "v170", V170.session),
    ):
        with pytest.raises(NotFoundError):
            locate(samples, ref)


def test_keys_of_no_layout_are_counted_and_passed_over(
    store: LocalBackend, sample_tree: Path
) -> None:
    """A later release may write more; folder placeholders are nothing."""
    prefix = kuberay_session_prefix(V170)
    store.put(f"{prefix}{'c' * 56}/logs/a.log", b"x")
    store.put(f"{prefix}{'c' * 56}/future/thing", b"x")
    store.put(f"{prefix}{'c' * 56}/job_events/01000000/not-an-event-file", b"x")
    source = locate(store, V170)
    assert [log.path for log in source.log_files] == ["a.log"]
    assert [item.reason.value for item in source.damage] == ["unknown_key", "unknown_key"]


def test_the_fingerprint_follows_the_content(store: LocalBackend, sample_tree: Path) -> None:
    """Same objects, same name; any change of one, and any new one, another name."""
    for key, body in objects_below(sample_tree).items():
        if key.startswith("cluster-history/"):
            store.put(key, body)
    now_ms = 2_000_000_000_000
    first = locate(store, V170, now_ms=now_ms).fingerprint
    assert locate(store, V170, now_ms=now_ms).fingerprint == first
    log = next(f for f in locate(store, V170).log_files if f.path == "raylet.out")
    store.put(log.parts[0].key, b"changed")
    second = locate(store, V170, now_ms=now_ms).fingerprint
    store.put(f"{kuberay_session_prefix(V170)}{log.node_id}/logs/new.log", b"")
    third = locate(store, V170, now_ms=now_ms).fingerprint
    assert len({first, second, third}) == 3
