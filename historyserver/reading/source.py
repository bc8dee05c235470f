"""What a stored session consists of, whoever wrote it: the seam of reading and compiling."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from historyserver.folding.session_state import SessionState
from historyserver.reading.damage import Damage
from storage.layout import SessionRef


@dataclass(frozen=True, slots=True)
class EventFile:
    """One object with events."""

    key: str
    node_id: str
    """Hex id of the node whose collector wrote it."""
    size_bytes: int
    etag: str
    framing: str
    """`gzip` or `plain` (JSON lines or one JSON array: told apart by the first byte), or
    `segment` for our live segments."""
    frames: tuple[tuple[int, int], ...] = ()
    """For `segment`: (start, length) of each zstd frame with events, as the node's manifest
    says. Empty means that no manifest names the segment: then every frame is looked at."""


class LogPart(msgspec.Struct, array_like=True, frozen=True):
    """Consecutive bytes of a log file and the place they are stored."""

    key: str
    log_start: int
    log_length: int
    framing: str = "plain"
    """`plain`: the object's bytes are the log's; `zstd`: one zstd frame of a live segment."""
    object_start: int = 0
    """`plain`: where in the object the part begins; `zstd`: where the frame begins."""
    object_length: int = 0
    """`zstd`: size of the packed frame, which may unpack to more than `log_length`."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log file of one node, of all its parts in order. Parts may leave gaps, never overlap."""

    node_id: str
    path: str
    """Below the node's logs folder, as `events/event_GCS.log`."""
    size_bytes: int
    parts: tuple[LogPart, ...]


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One stored answer of the live dashboard."""

    name: str
    """The request's path with its query, as `/api/v0/placement_groups?detail=1&limit=10000`."""
    key: str
    framing: str
    """`plain`: the body as KubeRay keeps it; `envelope`: ours (zstd, with time and status)."""
    modified_ms: int


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a collector said of the completeness of its node's data (our layout only)."""

    node_id: str
    dropped_events: int = 0
    quarantined_events: int = 0
    log_gaps: int = 0
    """Ranges of logs and whole logs that are stored nowhere."""


@dataclass(frozen=True, slots=True)
class SessionSource:
    """Everything stored of one session, found by listing; nothing is read yet."""

    session: SessionRef
    generation: str
    """`A`, `B`, `C-`, `C`, or `ours` (KubeRay's C plus our own tree)."""
    event_files: tuple[EventFile, ...]
    log_files: tuple[LogFile, ...]
    snapshots: tuple[SnapshotFile, ...]
    node_reports: tuple[NodeReport, ...] = ()
    start_ms: int = 0
    end_ms: int = 0
    """0 when no end marker tells it."""
    state: str = SessionState.UNCLEAN.value
    """A `SessionState`: fresh live data, an end marker, or neither."""
    reason: str = ""
    """Why that state: a `state.StateReason`."""
    settled: bool = True
    """Nothing more is expected to arrive. False: locate again later, the fingerprint may change
    (also when the head has ended and a worker still drains)."""
    fingerprint: str = ""
    """Changes whenever any of the above does; names the compiled file."""
    damage: tuple[Damage, ...] = ()
    """What was listed and cannot be used (a manifest that is no JSON, keys of no layout)."""
