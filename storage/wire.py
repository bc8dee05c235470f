"""The small documents that collectors write and the history server reads, as typed structs.

Each has a `schema` number of its own. Fields may be added without changing it: readers ignore
what they do not know, and new fields have defaults. A document with a higher number is
refused with `WireError`, so an old server says "newer than I am" rather than guess.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec
import zstandard

SCHEMA = 1
"""What this version writes, and the highest that it reads."""

SNAPSHOT_MAX_BYTES = 256 * 1024 * 1024
"""Of one decoded snapshot: Ray's largest answers (10,000 workers in detail) stay well below."""


class WireError(Exception):
    """A stored document is not what it should be; the message says which and where."""


class SessionStart(msgspec.Struct, kw_only=True):
    """`session.json`: who a session is. Written once, by whichever collector came first."""

    schema: int = SCHEMA
    namespace: str
    cluster: str
    owner_kind: str = ""
    owner_name: str = ""
    session: str
    started_ms: int
    collector_version: str
    node_id: str
    """Of the collector that wrote it."""
    role: str
    """`head` or `worker`."""


class EventFileEntry(msgspec.Struct, kw_only=True):
    """One stored event file."""

    key: str
    events: int
    size_bytes: int


class EventTotals(msgspec.Struct, kw_only=True):
    """What became of the events that one collector received."""

    received: int = 0
    duplicates: int = 0
    quarantined: int = 0
    dropped: int = 0
    stored: int = 0
    event_files: list[EventFileEntry] = []


class LogFrame(msgspec.Struct, kw_only=True):
    """Bytes of one log file: where in the log, and which zstd frame of a live segment has them."""

    seq: int
    object_start: int
    object_length: int
    log_start: int
    log_length: int


class LogEntry(msgspec.Struct, kw_only=True):
    """One log file of the node."""

    path: str
    size_bytes: int
    key: str | None = None
    """The final plain object, when the whole file has been stored; `frames` are then moot."""
    frames: list[LogFrame] = []
    gaps: list[tuple[int, int]] = []
    """Half-open byte ranges of the log that are stored nowhere."""


class EventFrame(msgspec.Struct, kw_only=True):
    """Event lines in a zstd frame of a live segment."""

    seq: int
    object_start: int
    object_length: int
    events: int


class NodeManifest(msgspec.Struct, kw_only=True):
    """`nodes/{node}/manifest.json`: what is stored of one node.

    Stored after the segments that it names, and before the ones that it no longer names are
    deleted: all that it tells of can be read at any time.
    """

    schema: int = SCHEMA
    node_id: str
    role: str
    session: str
    state: Literal["running", "ended"]
    updated_ms: int
    collector_version: str
    events: EventTotals = msgspec.field(default_factory=EventTotals)
    logs: list[LogEntry] = []
    hot_events: list[EventFrame] = []
    log_dropped: dict[str, int] = {}
    """How many log files are not stored, by reason."""


class SessionEnd(msgspec.Struct, kw_only=True):
    """`end.json`: how a session ended, by the head's collector."""

    schema: int = SCHEMA
    ended_ms: int
    reason: Literal["drained", "ray_gone", "session_changed"]
    node_id: str
    collector_version: str


class SnapshotEnvelope(msgspec.Struct, kw_only=True):
    """One answer of the live dashboard, with when and how it was given. Stored as zstd JSON."""

    schema: int = SCHEMA
    name: str
    """The request's path with its query."""
    taken_ms: int
    status: int
    content_type: str
    body: msgspec.Raw
    """The JSON body as it came. A body that is no JSON is kept as one JSON string."""


class CatalogueEntry(msgspec.Struct, kw_only=True):
    """What the list of sessions shows of a session. Written at start, again at the end."""

    schema: int = SCHEMA
    namespace: str
    cluster: str
    owner_kind: str = ""
    owner_name: str = ""
    session: str
    started_ms: int
    ended_ms: int = 0
    """0 while it runs."""
    state: str
    """`running`, `ended` or `unclean`."""
    size_bytes: int = 0
    nodes: int = 0
    jobs: int = 0


Document = TypeVar(
    "Document", SessionStart, NodeManifest, SessionEnd, SnapshotEnvelope, CatalogueEntry
)

_encoder = msgspec.json.Encoder()


class _SchemaOnly(msgspec.Struct):
    schema: int


def encode_session_start(document: SessionStart) -> bytes:
    """As `session.json` holds it."""
    return _encoder.encode(document)


def decode_session_start(data: bytes, *, source: str = "session.json") -> SessionStart:
    """Read a `session.json`; `source` names it in errors."""
    return _decode(data, SessionStart, source)


def encode_manifest(document: NodeManifest) -> bytes:
    """As `manifest.json` holds it."""
    return _encoder.encode(document)


def decode_manifest(data: bytes, *, source: str = "manifest.json") -> NodeManifest:
    """Read a node's `manifest.json`; `source` names it in errors."""
    return _decode(data, NodeManifest, source)


def encode_session_end(document: SessionEnd) -> bytes:
    """As `end.json` holds it."""
    return _encoder.encode(document)


def decode_session_end(data: bytes, *, source: str = "end.json") -> SessionEnd:
    """Read an `end.json`; `source` names it in errors."""
    return _decode(data, SessionEnd, source)


def encode_catalogue_entry(document: CatalogueEntry) -> bytes:
    """As the catalogue holds it."""
    return _encoder.encode(document)


def decode_catalogue_entry(data: bytes, *, source: str = "catalogue entry") -> CatalogueEntry:
    """Read an entry of the catalogue; `source` names it in errors."""
    return _decode(data, CatalogueEntry, source)


def encode_snapshot(document: SnapshotEnvelope) -> bytes:
    """As `snapshots/*.json.zst` holds it."""
    return zstandard.ZstdCompressor(level=3).compress(_encoder.encode(document))


def decode_snapshot(
    data: bytes, *, source: str = "snapshot", max_bytes: int = SNAPSHOT_MAX_BYTES
) -> SnapshotEnvelope:
    """Read a snapshot; refuses one that would unpack to more than `max_bytes`."""
    return _decode(_unpacked(data, source, max_bytes), SnapshotEnvelope, source)


def json_body(body: bytes) -> msgspec.Raw:
    """A response body as an envelope can hold it: itself when it is JSON, else a JSON string."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return msgspec.Raw(_encoder.encode(body.decode("utf-8", "replace")))
    return msgspec.Raw(body)


def _unpacked(data: bytes, source: str, max_bytes: int) -> bytes:
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            body = reader.read(max_bytes + 1)
    except zstandard.ZstdError as error:
        raise WireError(f"{source}: not valid zstd: {error}") from error
    if len(body) > max_bytes:
        raise WireError(f"{source}: unpacks to more than {max_bytes} bytes")
    return body


def _decode(data: bytes, kind: type[Document], source: str) -> Document:
    try:
        schema = msgspec.json.decode(data, type=_SchemaOnly).schema
        if not 1 <= schema <= SCHEMA:
            raise WireError(
                f"{source}: schema {schema}, this version reads 1 to {SCHEMA}; use a newer one"
            )
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"{source}: not a {kind.__name__}: {error}") from error
