"""Reads Ray's own cluster events from `logs/events/event_*.log` of all nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec

from historyserver.reading.damage import DamageLog
from historyserver.reading.logs import read_log
from historyserver.reading.source import LogFile
from storage.backend import Backend

MAX_LINE_BYTES = 2 * 1024 * 1024
"""Longer lines are left out, as KubeRay's server does."""

MAX_EVENTS = 200_000
"""No more are kept of a session; the latest stay."""

_PATH = re.compile(r"events/event_[^/]*\.log(\.\d+)?\Z")
_READ_BYTES = 1024 * 1024


class ClusterEventRow(NamedTuple):
    """One event, as `CompiledWriter.add_cluster_events` takes it."""

    event_id: str
    job_id: str
    source_type: str
    severity: str
    timestamp_ms: int
    line: str


class LineSkip(StrEnum):
    """Why a line of an event log was left out."""

    TOO_LONG = "event_log_line_too_long"
    NOT_AN_EVENT = "event_log_line_not_an_event"
    TOO_MANY = "event_log_too_many"


class _Line(msgspec.Struct):
    event_id: str
    timestamp: float = 0
    source_type: str = ""
    severity: str = ""
    custom_fields: dict[str, object] = {}


_decode = msgspec.json.Decoder(_Line, strict=False).decode


def cluster_event_rows(
    backend: Backend, files: Iterable[LogFile], damage: DamageLog, skipped: Counter[str]
) -> list[ClusterEventRow]:
    """Read the events of all nodes, each id once, in time order."""
    found: dict[str, ClusterEventRow] = {}
    for file in files:
        if not _PATH.match(file.path) or not file.size_bytes:
            continue
        for line in _lines(backend, file, damage, skipped):
            row = _row(line)
            if row is None:
                skipped[LineSkip.NOT_AN_EVENT] += 1
            elif row.event_id not in found or row > found[row.event_id]:
                found[row.event_id] = row
        if len(found) > 2 * MAX_EVENTS:
            found = _latest(found, skipped)
    return sorted(_latest(found, skipped).values(), key=_in_time)


def _latest(found: dict[str, ClusterEventRow], skipped: Counter[str]) -> dict[str, ClusterEventRow]:
    if len(found) <= MAX_EVENTS:
        return found
    skipped[LineSkip.TOO_MANY] += len(found) - MAX_EVENTS
    kept = sorted(found.values(), key=_in_time)[-MAX_EVENTS:]
    return {row.event_id: row for row in kept}


def _lines(
    backend: Backend, file: LogFile, damage: DamageLog, skipped: Counter[str]
) -> Iterator[bytes]:
    """Yield the lines; of one that is too long, nothing is kept in memory."""
    rest = b""
    is_long = False
    for chunk in read_log(backend, file.parts, damage=damage):
        *lines, rest_of_chunk = chunk.split(b"\n")
        for line in lines:
            if is_long:
                is_long, rest = False, b""
                continue
            whole = rest + line
            rest = b""
            if len(whole) > MAX_LINE_BYTES:
                skipped[LineSkip.TOO_LONG] += 1
            elif whole.strip():
                yield whole
        if is_long:
            continue
        rest += rest_of_chunk
        if len(rest) > MAX_LINE_BYTES:
            is_long, rest = True, b""
            skipped[LineSkip.TOO_LONG] += 1
    if rest.strip() and not is_long:
        yield rest


def _in_time(row: ClusterEventRow) -> tuple[int, str]:
    return row.timestamp_ms, row.event_id


def _row(line: bytes) -> ClusterEventRow | None:
    try:
        event = _decode(line)
        text = line.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    job = event.custom_fields.get("job_id")
    return ClusterEventRow(
        event.event_id,
        job if isinstance(job, str) else "",
        event.source_type,
        event.severity,
        int(event.timestamp * 1000),
        text,
    )
