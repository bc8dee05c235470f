"""Sessions of our collector: live segments, manifests, snapshots, and how they ended."""

from __future__ import annotations

import pytest

from historyserver.reading.damage import DamageLog, DamageReason
from historyserver.reading.events import open_events
from historyserver.reading.frames import SourceChangedError
from historyserver.reading.locate import locate
from historyserver.reading.logs import read_log
from historyserver.reading.snapshots import read_snapshot
from historyserver.reading.source import SessionSource
from storage.layout import (
    SessionRef,
    compiled_key,
    endpoint_key,
    event_key,
    log_key,
    manifest_key,
    session_json_key,
    snapshot_key,
)
from storage.local import LocalBackend
from storage.wire import LogEntry
from tests.historyserver.reading.stored import HEAD, WORKER, OurWriter

REF = SessionRef("ml", "rl", "session_2026-11-30_21-46-10_000001_7")
LINE = b'{"eventId":"%d","eventType":"TASK_LIFECYCLE_EVENT"}\n'


@pytest.fixture
def writer(store: LocalBackend) -> OurWriter:
    """A session that has begun."""
    writer = OurWriter(store, REF)
    writer.start()
    return writer


def lines_of(store: LocalBackend, source: SessionSource) -> bytes:
    damage = DamageLog()
    text = b"".join(b for file in source.event_files for b in open_events(store, file, damage))
    assert not damage.items
    return text


def log_text(store: LocalBackend, source: SessionSource, path: str) -> bytes:
    (log,) = [log for log in source.log_files if log.path == path]
    return b"".join(read_log(store, log.parts))


def test_live_data_is_found_through_the_manifest(store: LocalBackend, writer: OurWriter) -> None:
    """Events and logs share segments; the manifest says which frame is what."""
    writer.segment(1, [("", LINE % 1, 0), ("raylet.out", b"one\n", 0), ("", LINE % 2, 0)])
    writer.segment(2, [("raylet.out", b"two\n", 4), ("", LINE % 3, 0)])
    writer.manifest()
    source = locate(store, REF)
    assert source.generation == "ours"
    assert lines_of(store, source) == LINE % 1 + LINE % 2 + LINE % 3
    assert log_text(store, source, "raylet.out") == b"one\ntwo\n"


def test_final_data_and_live_data_are_joined(store: LocalBackend, writer: OurWriter) -> None:
    """Cold files lie in KubeRay's layout; a log that is final leaves its frames unread."""
    writer.segment(1, [("", LINE % 1, 0), ("a.log", b"aaaa", 0), ("b.log", b"bbbb", 0)])
    store.put(event_key(REF, HEAD, "node_events", 10**18, gzip=False), LINE % 0)
    key = log_key(REF, HEAD, "a.log")
    store.put(key, b"aaaaAAAA")
    writer.logs[0] = LogEntry(path="a.log", size_bytes=8, key=key)
    writer.manifest()
    source = locate(store, REF)
    assert sorted(lines_of(store, source).splitlines(keepends=True)) == [LINE % 0, LINE % 1]
    assert log_text(store, source, "a.log") == b"aaaaAAAA"
    assert log_text(store, source, "b.log") == b"bbbb"
    (log,) = [log for log in source.log_files if log.path == "a.log"]
    assert [part.key for part in log.parts] == [key]


def test_a_gap_in_a_log_stays_a_gap(store: LocalBackend, writer: OurWriter) -> None:
    """What was lost is lost at its place: what follows keeps its offset."""
    writer.segment(1, [("a.log", b"aaaa", 0), ("a.log", b"cccc", 8)])
    writer.logs[0].gaps = [(4, 8), (12, 20)]
    writer.logs[0].size_bytes = 20
    writer.manifest()
    source = locate(store, REF)
    (log,) = source.log_files
    assert (log.size_bytes, b"".join(read_log(store, log.parts, 6, 12))) == (20, b"cccc")
    assert source.node_reports[0].log_gaps == 2


def test_a_final_log_may_end_before_its_file_did(store: LocalBackend, writer: OurWriter) -> None:
    """The grace ran out: the manifest tells the size of the file and the gap at its end."""
    key = log_key(REF, HEAD, "a.log")
    store.put(key, b"aaaa")
    writer.logs = [LogEntry(path="a.log", size_bytes=10, key=key, gaps=[(4, 10)])]
    writer.manifest()
    (log,) = locate(store, REF).log_files
    assert log.size_bytes == 10
    assert [(part.log_start, part.log_length) for part in log.parts] == [(0, 4)]


def test_a_segment_that_the_manifest_does_not_name_is_left_out(
    store: LocalBackend, writer: OurWriter
) -> None:
    """It is superseded, or its manifest is not stored yet; also the fingerprint ignores it."""
    writer.segment(1, [("", LINE % 1, 0)])
    writer.manifest()
    before = locate(store, REF)
    OurWriter(store, REF).segment(2, [("", LINE % 2, 0)])
    after = locate(store, REF)
    assert lines_of(store, after) == LINE % 1
    assert after.fingerprint == before.fingerprint


def test_segments_without_any_manifest_are_read(store: LocalBackend, writer: OurWriter) -> None:
    """The collector was killed in its first seconds: its events count all the same."""
    writer.segment(1, [("", LINE % 1, 0), ("a.log", b"text\n", 0)])
    source = locate(store, REF)
    damage = DamageLog()
    (file,) = source.event_files
    assert b"".join(open_events(store, file, damage)) == LINE % 1
    assert damage.counts() == {"not_an_event_frame": 1}


def test_our_snapshots_win_over_kept_answers(store: LocalBackend, writer: OurWriter) -> None:
    """The same answer is stored for KubeRay's server too, without its time."""
    name = "/api/v0/placement_groups?detail=1&limit=10000"
    store.put(endpoint_key(REF, name), b'{"from":"kuberay"}')
    store.put(endpoint_key(REF, "/timezone"), b'{"from":"kuberay"}')
    writer.snapshot(name, b'{"from":"ours"}', taken_ms=77)
    writer.snapshot("/api/jobs/", b"[]")
    source = locate(store, REF)
    answers = {snapshot.name: read_snapshot(store, snapshot) for snapshot in source.snapshots}
    assert answers[name] == (77, b'{"from":"ours"}')
    assert answers["/api/jobs/"] == (3_000, b"[]")
    timezone = answers["/timezone"]
    assert timezone is not None
    assert timezone[1] == b'{"from":"kuberay"}'


def test_an_answer_that_was_an_error_or_is_damaged_is_none(
    store: LocalBackend, writer: OurWriter, damage: DamageLog
) -> None:
    """Only the damage is counted as such."""
    writer.snapshot("/api/jobs/", b'"boom"', status=500)
    store.put(snapshot_key(REF, "/timezone"), b"no zstd")
    source = locate(store, REF)
    assert [read_snapshot(store, snapshot, damage) for snapshot in source.snapshots] == [None] * 2
    assert damage.counts() == {"bad_snapshot": 1}


MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("end", "head", "age_ms", "state", "reason", "settled"),
    [
        (False, "running", MINUTE_MS, "running", "fresh_manifest", False),
        (False, "running", 3 * MINUTE_MS, "unclean", "stale_manifest", False),
        (False, "running", 61 * MINUTE_MS, "unclean", "stale_manifest", True),
        (True, "running", 3 * MINUTE_MS, "ended", "end_marker", True),
        (True, "running", MINUTE_MS, "ended", "end_marker", False),
        (False, "ended", 3 * MINUTE_MS, "ended", "end_marker", True),
    ],
)
def test_the_state_is_told_by_marker_and_manifests(
    store: LocalBackend,
    writer: OurWriter,
    end: bool,
    head: str,
    age_ms: int,
    state: str,
    reason: str,
    settled: bool,
) -> None:
    """`settled` is False while a worker may still drain, or a lost collector come back."""
    if end:
        writer.end(ended_ms=9_000)
    writer.manifest(state=head)
    modified_ms = store.head(manifest_key(REF, HEAD)).modified_ms
    source = locate(store, REF, now_ms=modified_ms + age_ms)
    assert (source.state, source.reason, source.settled) == (state, reason, settled)
    assert source.end_ms == (9_000 if end else 0)


def test_a_manifest_renewed_for_its_time_alone_changes_nothing(
    store: LocalBackend, writer: OurWriter
) -> None:
    """An idle session that runs is not compiled again every few seconds."""
    writer.segment(1, [("", LINE % 1, 0)])
    writer.manifest(updated_ms=2_000)
    first = locate(store, REF)
    writer.manifest(updated_ms=3_000)
    second = locate(store, REF)
    writer.segment(2, [("", LINE % 2, 0)])
    writer.manifest(updated_ms=4_000)
    third = locate(store, REF)
    assert first.fingerprint == second.fingerprint != third.fingerprint


def test_compiled_files_do_not_change_the_fingerprint(
    store: LocalBackend, writer: OurWriter
) -> None:
    """Else storing the compiled session would make it outdated."""
    before = locate(store, REF).fingerprint
    store.put(compiled_key(REF, 1, before), b"sqlite")
    assert locate(store, REF).fingerprint == before


def test_the_end_changes_the_fingerprint(store: LocalBackend, writer: OurWriter) -> None:
    """What was left open is closed only then."""
    before = locate(store, REF).fingerprint
    writer.end()
    assert locate(store, REF).fingerprint != before


def test_an_owner_that_cannot_be_one_is_counted(store: LocalBackend) -> None:
    """The session opens without it, and says so."""
    OurWriter(store, REF).start(owner=("RayJob", "no/such name"))
    source = locate(store, REF)
    assert source.session == REF
    assert [one.reason for one in source.damage] == [DamageReason.BAD_OWNER]


def test_the_owner_is_learnt_from_session_json(store: LocalBackend) -> None:
    """Who asks by the cluster's name gets the events under the owner's folder too."""
    writer = OurWriter(store, REF)
    writer.start(owner=("RayJob", "nightly"))
    owned = SessionRef(REF.namespace, REF.cluster, REF.session, "rayjob", "nightly")
    store.put(event_key(owned, HEAD, "node_events", 10**18, gzip=False), LINE % 1)
    source = locate(store, REF)
    assert source.session == owned
    assert lines_of(store, source) == LINE % 1
    assert locate(store, owned).fingerprint == source.fingerprint


def test_damaged_documents_do_not_hide_the_session(store: LocalBackend, writer: OurWriter) -> None:
    """What they would have told is missing, and that is counted."""
    store.put(session_json_key(REF), b"{")
    store.put(manifest_key(REF, HEAD), b'{"schema": 99}')
    store.put(event_key(REF, HEAD, "node_events", 10**18, gzip=False), LINE % 1)
    source = locate(store, REF)
    assert lines_of(store, source) == LINE % 1
    assert sorted(item.reason.value for item in source.damage) == [
        "bad_manifest",
        "bad_session_start",
    ]


def test_a_manifest_cannot_show_the_objects_of_another_session(
    store: LocalBackend, writer: OurWriter
) -> None:
    """Clusters of several tenants may write to one bucket."""
    other = SessionRef("secret", "rl", REF.session)
    store.put(log_key(other, HEAD, "raylet.out"), b"secret")
    for key in (log_key(other, HEAD, "raylet.out"), "secret.txt", "../secret"):
        writer.logs = [LogEntry(path="raylet.out", size_bytes=6, key=key)]
        writer.manifest()
        source = locate(store, REF)
        assert all(not log.parts for log in source.log_files)
        assert [item.reason.value for item in source.damage] == ["bad_manifest"]


def test_a_session_below_the_root_log_is_found(store: LocalBackend) -> None:
    """A collector with `--ray-root-dir=log`, a server without."""
    inner = LocalBackend(store._directory, root="log")
    writer = OurWriter(inner, REF)
    writer.start()
    writer.segment(1, [("", LINE % 1, 0)])
    key = log_key(REF, HEAD, "a.log")
    inner.put(key, b"final")
    writer.logs = [LogEntry(path="a.log", size_bytes=5, key=key)]
    writer.manifest()
    source = locate(store, REF)
    assert lines_of(store, source) == LINE % 1
    assert log_text(store, source, "a.log") == b"final"


def test_a_segment_superseded_meanwhile_is_found_again(
    store: LocalBackend, writer: OurWriter
) -> None:
    """Between locating and reading, the collector has moved the events to a final file."""
    segment = writer.segment(1, [("", LINE % 1, 0)])
    writer.manifest()
    source = locate(store, REF)
    store.put(event_key(REF, HEAD, "node_events", 10**18, gzip=False), LINE % 1)
    writer.hot_events.clear()
    writer.manifest()
    store.delete(segment)
    with pytest.raises(SourceChangedError):
        lines_of(store, source)
    assert lines_of(store, locate(store, REF)) == LINE % 1


def test_every_node_reports(store: LocalBackend, writer: OurWriter) -> None:
    """The worker's manifest lies beside the head's."""
    writer.manifest(state="ended")
    OurWriter(store, REF).manifest(node_id=WORKER, role="worker")
    assert [report.node_id for report in locate(store, REF).node_reports] == [HEAD, WORKER]
