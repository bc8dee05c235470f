"""Documents that claim what cannot be: each costs itself, never the session or the list."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from historyserver.catalogue import Catalogue
from historyserver.reading.damage import DamageReason
from historyserver.reading.locate import locate
from historyserver.reading.snapshots import read_snapshot
from storage.backend import read_all
from storage.layout import (
    SessionRef,
    catalogue_key,
    end_key,
    endpoint_key,
    log_key,
    manifest_key,
    session_json_key,
)
from storage.local import LocalBackend
from storage.wire import LogEntry
from tests.historyserver.reading.stored import HEAD, OurWriter

REF = SessionRef("ml", "rl", "session_2026-11-30_21-46-10_000001_7")
OTHER = SessionRef("ml", "other", REF.session)
NO_TIMES = [-1, 253_402_300_800_000, 2**62, 2**63, 10**30, -(10**30)]
NO_COUNTS = [-1, 2**53 + 1, 2**63, 10**30]


@pytest.fixture
def writer(store: LocalBackend) -> OurWriter:
    """A session with one whole log, and a manifest."""
    writer = OurWriter(store, REF)
    writer.start()
    key = log_key(REF, HEAD, "good.log")
    store.put(key, b"good")
    writer.logs.append(LogEntry(path="good.log", size_bytes=4, key=key))
    writer.manifest()
    return writer


def edit(store: LocalBackend, key: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a stored JSON document."""
    document = json.loads(read_all(store, key, max_bytes=1 << 20))
    change(document)
    store.put(key, json.dumps(document).encode())


def damage_of(store: LocalBackend) -> set[DamageReason]:
    """What `locate` could not use."""
    return {item.reason for item in locate(store, REF).damage}


@pytest.mark.parametrize("value", NO_TIMES)
def test_a_start_that_is_no_time_is_left_out(
    store: LocalBackend, writer: OurWriter, value: int
) -> None:
    """The session's name tells the start as well."""
    del writer
    edit(store, session_json_key(REF), lambda found: found.update(started_ms=value))
    source = locate(store, REF)
    assert source.start_ms == 1_796_075_170_000
    assert damage_of(store) == {DamageReason.BAD_SESSION_START}


@pytest.mark.parametrize("value", NO_TIMES)
def test_an_end_that_is_no_time_is_left_out(
    store: LocalBackend, writer: OurWriter, value: int
) -> None:
    """It would break every text that tells it."""
    writer.end()
    edit(store, end_key(REF), lambda found: found.update(ended_ms=value))
    assert locate(store, REF).end_ms == 0
    assert damage_of(store) == {DamageReason.BAD_SESSION_END}


@pytest.mark.parametrize("value", NO_TIMES)
def test_a_manifest_of_no_time_is_left_out(
    store: LocalBackend, writer: OurWriter, value: int
) -> None:
    """As one that is cut."""
    del writer
    edit(store, manifest_key(REF, HEAD), lambda found: found.update(updated_ms=value))
    assert damage_of(store) == {DamageReason.BAD_MANIFEST}


def _entry(**changes: object) -> dict[str, object]:
    return {"path": "bad.log", "size_bytes": 4, "key": None, "frames": [], "gaps": []} | changes


def _frame(**changes: object) -> dict[str, object]:
    good = {"seq": 1, "object_start": 0, "object_length": 4, "log_start": 0, "log_length": 4}
    return _entry(frames=[good | changes])


BAD_ENTRIES = {
    **{f"size {value}": _entry(size_bytes=value) for value in NO_COUNTS},
    **{f"gap {value}": _entry(gaps=[[0, value]]) for value in NO_COUNTS},
    **{
        f"{name} {value}": _frame(**{name: value})
        for name in ("seq", "object_start", "object_length", "log_start", "log_length")
        for value in (-1, 10**30)
    },
    "a frame of a gigabyte": _frame(object_length=1 << 30),
    "a path that leaves": _entry(path="../../etc/passwd"),
    "an absolute path": _entry(path="/etc/passwd"),
    "a path with NUL": _entry(path="a\0b"),
    "a key that leaves": _entry(key="../../../etc/passwd"),
    "an absolute key": _entry(key="/etc/passwd"),
    "a key of another session": _entry(key=log_key(OTHER, HEAD, "secret.log")),
    "a key of another node": _entry(key=log_key(REF, "b" * 56, "secret.log")),
    "a key that is no log": _entry(key=session_json_key(REF)),
}


@pytest.mark.parametrize("name", sorted(BAD_ENTRIES))
def test_an_impossible_log_costs_only_itself(
    store: LocalBackend, writer: OurWriter, name: str
) -> None:
    """The logs after it in the manifest stay, and nothing foreign is shown."""
    del writer
    edit(store, manifest_key(REF, HEAD), lambda found: found["logs"].insert(0, BAD_ENTRIES[name]))
    source = locate(store, REF)
    assert [log.path for log in source.log_files] == ["good.log"]
    assert damage_of(store) == {DamageReason.BAD_MANIFEST}


@pytest.mark.parametrize("value", [-1, 10**30, 1 << 40])
@pytest.mark.parametrize("name", ["seq", "object_start", "object_length"])
def test_an_impossible_event_frame_costs_only_itself(
    store: LocalBackend, writer: OurWriter, name: str, value: int
) -> None:
    """The other segments are still read."""
    del writer
    good = {"seq": 1, "object_start": 0, "object_length": 9, "events": 1}
    bad = good | {"seq": 2} | {name: value}
    frames = [bad, good]
    edit(store, manifest_key(REF, HEAD), lambda found: found.update(hot_events=frames))
    source = locate(store, REF)
    if (name, value) == ("object_start", 1 << 40):  # only far, and reading it finds nothing
        assert len(source.event_files) == 2
        return
    assert [file.frames for file in source.event_files] == [((0, 9),)]
    assert damage_of(store) == {DamageReason.BAD_MANIFEST}


@pytest.mark.parametrize("owner", [("../..", "x"), ("rayjob", "../x"), ("pod", "x")])
def test_an_owner_that_cannot_be_is_left_out(store: LocalBackend, owner: tuple[str, str]) -> None:
    """The session opens by its cluster."""
    writer = OurWriter(store, REF)
    writer.start(owner=owner)
    assert locate(store, REF).session == REF


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in ("started_ms", "ended_ms") for value in NO_TIMES]
    + [(name, value) for name in ("size_bytes", "nodes", "jobs") for value in NO_COUNTS],
)
def test_an_impossible_entry_does_not_end_the_list(
    store: LocalBackend, writer: OurWriter, name: str, value: int
) -> None:
    """One entry in the year 300,000 would leave nobody a list of sessions."""
    del writer
    entry = {
        "schema": 1, "namespace": "ml", "cluster": "rl", "session": REF.session, "state": "ended",
        "started_ms": 1_796_075_170_000, "ended_ms": 1_796_075_171_000,
    }  # fmt: skip
    store.put(catalogue_key(REF), json.dumps(entry | {name: value}).encode())
    (found,) = Catalogue(store).sessions()
    assert found.start_ms == 1_796_075_170_000
    assert found.size_bytes is None


@pytest.mark.parametrize("body", [b'{"data":', b"\xff\xfe", b"not found", b"[" * 100_000])
def test_a_stored_answer_that_is_no_json_is_damage(store: LocalBackend, body: bytes) -> None:
    """KubeRay's collector stores bodies as they come; a cut one must not reach the queries."""
    store.put(endpoint_key(REF, "/timezone"), body)
    (file,) = locate(store, REF).snapshots
    assert read_snapshot(store, file) is None
