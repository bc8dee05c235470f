"""Stored answers are split by entity; Ray's event logs are read line by line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from historyserver.compiling import cluster_events
from historyserver.compiling.cluster_events import cluster_event_rows
from historyserver.compiling.snapshots import split, versions_of
from historyserver.reading.damage import DamageLog
from historyserver.reading.source import LogFile, LogPart
from storage.local.backend import LocalBackend
from tests.harness.compiled_samples import kuberay_live


@pytest.mark.parametrize(
    ("name", "live", "items"),
    [
        ("/logical/actors", "actors", 2),
        ("/nodes?view=summary", "nodes", 2),
        ("/api/jobs/", "jobs", 1),
        ("/api/v0/nodes?detail=1&limit=10000", "v0_nodes", 2),
        ("/api/v0/placement_groups?detail=1&limit=10000", "pgs", 1),
    ],
)
def test_collections_are_split_and_nothing_is_lost(name: str, live: str, items: int) -> None:
    """One row per entity, as it came; the rest keeps the envelope."""
    answer = kuberay_live("v170", live)
    rows = dict(split(name, json.dumps(answer).encode()))
    assert len(rows) == items + 1
    whole = json.dumps(answer)
    for item, body in rows.items():
        assert item in whole
        assert not item or item in body.decode()
    assert len(rows[""]) < len(whole)


@pytest.mark.parametrize(
    "body", [b"not json", b"[]", b'{"data": null}', b"[" * 5000, b'{"data":{"actors":[]}}']
)
@pytest.mark.parametrize(
    "name", ["/logical/actors", "/nodes?view=summary", "/api/v0/nodes?detail=1"]
)
def test_an_answer_of_another_shape_is_kept_whole(name: str, body: bytes) -> None:
    """Never an error, never lost."""
    assert dict(split(name, body)) == {"": body}


def test_other_answers_are_kept_as_they_came() -> None:
    """Byte for byte."""
    assert dict(split("/timezone", b'{"a":  1}')) == {"": b'{"a":  1}'}
    assert versions_of(b'{"data":{"rayVersion":"2.55.1"}}').ray_version == "2.55.1"
    assert versions_of(b"what").ray_version == ""


def event_file(backend: LocalBackend, path: str, body: bytes) -> LogFile:
    """Store a log file."""
    size_bytes = backend.put(path, body).size_bytes
    return LogFile("n", path, size_bytes, (LogPart(path, 0, size_bytes),))


def line(event_id: str, seconds: str, **more: object) -> bytes:
    """A line as Ray writes it: the time is text."""
    event = {
        "event_id": event_id,
        "timestamp": seconds,
        "source_type": "GCS",
        "severity": "INFO",
        **more,
    }
    return json.dumps(event).encode() + b"\n"


def test_events_of_all_files_come_once_in_time_order(tmp_path: Path) -> None:
    """Only events/event_*.log counts; bad lines are counted; jobs are found."""
    backend = LocalBackend(tmp_path)
    files = [
        event_file(backend, "events/event_GCS.log", line("b", "20") + b"torn {\n" + line("a", "10")),
        event_file(backend, "events/event_RAYLET.log.1", line("b", "20") + b"[]\n\n"),
        event_file(backend, "events/event_JOBS.log", line("c", "5.5", custom_fields={"job_id": "02000000"})),
        event_file(backend, "gcs_server.out", line("d", "1")),
    ]  # fmt: skip
    skipped = Counter[str]()
    rows = cluster_event_rows(backend, files, DamageLog(), skipped)
    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("c", "02000000", 5500),
        ("a", "", 10_000),
        ("b", "", 20_000),
    ]
    assert skipped == {"event_log_line_not_an_event": 2}


def test_a_line_that_is_too_long_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the lines around it stay."""
    monkeypatch.setattr(cluster_events, "MAX_LINE_BYTES", 300_000)
    backend = LocalBackend(tmp_path)
    body = line("a", "1") + line("long", "2", message="x" * 1_000_000) + line("b", "3")
    skipped = Counter[str]()
    rows = cluster_event_rows(
        backend, [event_file(backend, "events/event_GCS.log", body)], DamageLog(), skipped
    )
    assert [row[0] for row in rows] == ["a", "b"]
    assert skipped == {"event_log_line_too_long": 1}


def test_no_more_than_the_latest_events_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded, and said so."""
    monkeypatch.setattr(cluster_events, "MAX_EVENTS", 3)
    backend = LocalBackend(tmp_path)
    body = b"".join(line(f"e{number}", str(number)) for number in range(5))
    skipped = Counter[str]()
    rows = cluster_event_rows(
        backend, [event_file(backend, "events/event_GCS.log", body)], DamageLog(), skipped
    )
    assert [row[0] for row in rows] == ["e2", "e3", "e4"]
    assert skipped == {"event_log_too_many": 2}


@pytest.mark.parametrize("bad", [2**70, 5, ["a"], None])
def test_an_identity_that_is_no_text_leaves_the_answer_whole(bad: object) -> None:
    """The store of snapshots takes text only; readers see the answer as it came."""
    name = "/api/v0/placement_groups?detail=1&limit=10000"
    body = json.dumps({"data": {"result": {"result": [{"placement_group_id": bad}]}}}).encode()
    assert dict(split(name, body)) == {"": body}
