"""What says that a session exists and how it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.shipping.markers import SessionEndReason, SessionMarkers, stored
from storage import layout
from storage.backend import Backend, NotFoundError, read_all
from storage.layout import SessionRef
from storage.local import LocalBackend
from storage.wire import (
    CatalogueEntry,
    SessionEnd,
    decode_catalogue_entry,
    decode_session_end,
    decode_session_start,
)
from tests.collector.events import NODE, OTHER_NODE, SESSION

REF = SessionRef("ml", "c1", SESSION, "rayjob", "train")


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    (tmp_path / "store").mkdir()
    return LocalBackend(tmp_path / "store")


def head(backend: Backend, *, version: str = "1") -> SessionMarkers:
    return SessionMarkers(backend, REF, node_id=NODE, is_head=True, version=version)


def worker(backend: Backend) -> SessionMarkers:
    return SessionMarkers(backend, REF, node_id=OTHER_NODE, is_head=False, version="1")


def entry(backend: Backend) -> CatalogueEntry:
    data = read_all(backend, layout.catalogue_key(REF), max_bytes=10_000)
    return decode_catalogue_entry(data)


def end(backend: Backend) -> SessionEnd:
    return decode_session_end(read_all(backend, layout.end_key(REF), max_bytes=10_000))


def test_a_start_is_told_in_three_places(backend: Backend) -> None:
    """KubeRay's marker with the owner in its key, our session.json, the catalogue."""
    head(backend).write_start()
    marker = "cluster-metadata/rayjob/ml_train_c1/" + SESSION
    assert read_all(backend, marker, max_bytes=1) == b""
    start = decode_session_start(read_all(backend, layout.session_json_key(REF), max_bytes=10_000))
    assert (start.owner_kind, start.owner_name, start.role) == ("rayjob", "train", "head")
    assert start.started_ms == layout.session_started_ms(SESSION)
    assert (entry(backend).state, entry(backend).ended_ms) == ("running", 0)


def test_the_first_collector_tells_who_the_session_is(backend: Backend) -> None:
    """Whoever comes later leaves it alone."""
    worker(backend).write_start()
    head(backend).write_start()
    start = decode_session_start(read_all(backend, layout.session_json_key(REF), max_bytes=10_000))
    assert (start.role, start.node_id) == ("worker", OTHER_NODE)


def test_a_worker_neither_ends_nor_reopens_a_session(backend: Backend) -> None:
    """It may start late or restart when the head is done."""
    head(backend).write_start()
    head(backend).write_end(SessionEndReason.DRAINED, 5_000)
    worker(backend).write_start()
    worker(backend).write_end(SessionEndReason.RAY_GONE, 9_000)
    assert (end(backend).reason, end(backend).ended_ms) == ("drained", 5_000)
    assert (entry(backend).state, entry(backend).ended_ms) == ("ended", 5_000)


def test_a_head_that_goes_on_is_running_again(backend: Backend) -> None:
    """The raylet came back."""
    head(backend).write_start()
    head(backend).write_end(SessionEndReason.RAY_GONE, 5_000)
    head(backend).write_start()
    with pytest.raises(NotFoundError):
        end(backend)
    assert entry(backend).state == "running"


def test_an_end_that_was_told_stands(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """Late events change the sums, not the end; an unreadable end is replaced."""
    head(backend).write_end(SessionEndReason.RAY_GONE, 5_000)
    backend.put(layout.event_key(REF, NODE, ("job_events", "01000000"), 10**18), b"x" * 500)
    head(backend).write_end(SessionEndReason.SESSION_CHANGED, 9_000, keep=True)
    assert (end(backend).reason, end(backend).ended_ms) == ("ray_gone", 5_000)
    assert (entry(backend).ended_ms, entry(backend).jobs) == (5_000, 1)
    assert not caplog.records
    backend.put(layout.end_key(REF), b"torn")
    head(backend).write_end(SessionEndReason.SESSION_CHANGED, 9_000, keep=True)
    assert end(backend).ended_ms == 9_000
    assert [record.message for record in caplog.records] == ["end marker damaged, written anew"]


def test_the_sums_are_counted_from_the_keys(backend: Backend) -> None:
    """Nodes with events or a manifest, jobs by their folders, bytes of everything."""
    backend.put(layout.event_key(REF, NODE, ("job_events", "01000000"), 10**18), b"x" * 10)
    backend.put(layout.event_key(REF, NODE, ("job_events", "02000000"), 10**18), b"x" * 10)
    backend.put(layout.event_key(REF, OTHER_NODE, "node_events", 10**18), b"x" * 10)
    backend.put(layout.manifest_key(REF, "ab" * 28), b"{}")
    backend.put(layout.log_key(REF, NODE, "raylet.out"), b"x" * 100)
    other = SessionRef("ml", "c1-2", SESSION, "rayjob", "train")
    backend.put(layout.log_key(other, NODE, "raylet.out"), b"x" * 1000)
    facts = stored(backend, REF)
    assert (facts.size_bytes, facts.nodes, facts.jobs) == (132, 3, 2)


def test_sums_that_are_lower_bounds_are_told(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Beyond so many objects nothing is counted any more."""
    for number in range(3):
        backend.put(layout.log_key(REF, NODE, f"{number}.log"), b"x" * 100)
    monkeypatch.setattr("collector.shipping.markers.MAX_LISTED", 3)
    assert stored(backend, REF).size_bytes == 300
    assert not caplog.records
    monkeypatch.setattr("collector.shipping.markers.MAX_LISTED", 2)
    assert stored(backend, REF).size_bytes == 200
    assert [vars(record)["objects"] for record in caplog.records] == [2]
