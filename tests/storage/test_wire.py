"""The stored documents: what is written is read, what is unknown is let be, bad data is told."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
import zstandard

from storage import wire

START = wire.SessionStart(
    namespace="ml",
    cluster="v170",
    owner_kind="rayjob",
    owner_name="job",
    session="session_2026-08-18_09-00-01_000123_1",
    started_ms=1_787_000_000_000,
    collector_version="0.1.0",
    node_id="c3" * 28,
    role="head",
)
MANIFEST = wire.NodeManifest(
    node_id="c3" * 28,
    role="worker",
    session=START.session,
    state="running",
    updated_ms=1,
    collector_version="0.1.0",
    events=wire.EventTotals(
        received=5,
        duplicates=1,
        stored=4,
        event_files=[wire.EventFileEntry(key="k", events=4, size_bytes=99)],
    ),
    logs=[
        wire.LogEntry(
            path="events/ü.log",
            size_bytes=30,
            frames=[
                wire.LogFrame(seq=1, object_start=0, object_length=9, log_start=10, log_length=20)
            ],
            gaps=[(0, 10)],
        ),
        wire.LogEntry(path="raylet.out", size_bytes=1, key="final"),
    ],
    hot_events=[wire.EventFrame(seq=2, object_start=5, object_length=6, events=7)],
    log_dropped={"name_not_storable": 1},
)
END = wire.SessionEnd(ended_ms=2, reason="drained", node_id="c3" * 28, collector_version="0.1.0")
ENTRY = wire.CatalogueEntry(
    namespace="ml", cluster="v170", session=START.session, started_ms=1, state="running", nodes=2
)
SNAPSHOT = wire.SnapshotEnvelope(
    name="/nodes?view=summary",
    taken_ms=3,
    status=200,
    content_type="application/json",
    body=wire.json_body(b'{"result": true, "data": {"big": 12345678901234567890123}}'),
)

Codec = tuple[msgspec.Struct, Callable[..., bytes], Callable[..., msgspec.Struct]]
CODECS: dict[str, Codec] = {
    "session.json": (START, wire.encode_session_start, wire.decode_session_start),
    "manifest.json": (MANIFEST, wire.encode_manifest, wire.decode_manifest),
    "end.json": (END, wire.encode_session_end, wire.decode_session_end),
    "entry": (ENTRY, wire.encode_catalogue_entry, wire.decode_catalogue_entry),
}


@pytest.mark.parametrize("name", sorted(CODECS))
def test_documents_round_trip(name: str) -> None:
    """Every field comes back."""
    document, encode, decode = CODECS[name]
    assert decode(encode(document)) == document


@pytest.mark.parametrize("name", sorted(CODECS))
def test_unknown_fields_are_ignored(name: str) -> None:
    """A newer collector of the same schema may say more."""
    document, encode, decode = CODECS[name]
    fields = msgspec.json.decode(encode(document))
    fields["later"] = {"anything": [1, 2]}
    assert decode(msgspec.json.encode(fields)) == document


@pytest.mark.parametrize("name", sorted(CODECS))
@pytest.mark.parametrize("cut", [0, 1, 0.5, -1])
def test_truncated_documents_are_told(name: str, cut: float) -> None:
    """With the name of what was read."""
    document, encode, decode = CODECS[name]
    data = encode(document)
    end = int(len(data) * cut) if isinstance(cut, float) else cut
    with pytest.raises(wire.WireError, match=f"^{name}"):
        decode(data[:end], source=name)


@pytest.mark.parametrize("name", sorted(CODECS))
@pytest.mark.parametrize(
    "data",
    [b"[]", b"null", b"{}", b'{"schema": "1"}', b'{"schema": 0}', b"\xff\xfe", b"[" * 100_000],
)
def test_other_data_is_told(name: str, data: bytes) -> None:
    """Wrong types, missing fields, no JSON, nesting without end."""
    _, _, decode = CODECS[name]
    with pytest.raises(wire.WireError):
        decode(data)


def test_a_newer_schema_is_refused_with_advice() -> None:
    """An old server says that it is old."""
    fields = msgspec.json.decode(wire.encode_manifest(MANIFEST))
    fields["schema"] = wire.SCHEMA + 1
    with pytest.raises(wire.WireError, match="use a newer one"):
        wire.decode_manifest(msgspec.json.encode(fields))


def test_an_unknown_state_is_told() -> None:
    """States are a closed set."""
    fields = msgspec.json.decode(wire.encode_manifest(MANIFEST))
    fields["state"] = "sleeping"
    with pytest.raises(wire.WireError, match="state"):
        wire.decode_manifest(msgspec.json.encode(fields))


def test_snapshots_keep_the_body_as_it_came() -> None:
    """Byte for byte, so numbers that no float holds survive."""
    snapshot = wire.decode_snapshot(wire.encode_snapshot(SNAPSHOT))
    assert bytes(snapshot.body) == bytes(SNAPSHOT.body)
    assert (snapshot.name, snapshot.taken_ms, snapshot.status) == ("/nodes?view=summary", 3, 200)


@pytest.mark.parametrize("body", [b"", b"not json", b'{"torn": ', b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_is_kept_as_text(body: bytes) -> None:
    """`/api/cluster_status` of an old Ray, an error page: nothing is lost but bad UTF-8."""
    kept = msgspec.json.decode(wire.json_body(body))
    assert kept == body.decode("utf-8", "replace")


def test_damaged_snapshots_are_told() -> None:
    """Every truncation, and what is no zstd at all."""
    data = wire.encode_snapshot(SNAPSHOT)
    for end in range(len(data)):
        with pytest.raises(wire.WireError):
            wire.decode_snapshot(data[:end])
    with pytest.raises(wire.WireError, match="zstd"):
        wire.decode_snapshot(b"x" * 100, source="s")


def test_a_snapshot_that_unpacks_without_end_is_refused() -> None:
    """A few KB must not fill the memory."""
    bomb = zstandard.ZstdCompressor().compress(b"0" * 10_000_000)
    with pytest.raises(wire.WireError, match="more than 1000 bytes"):
        wire.decode_snapshot(bomb, max_bytes=1000)
