"""What one tree of one generation holds of a session; `locate` joins them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from historyserver.reading.source import EventFile, LogFile, LogPart, NodeReport, SnapshotFile
from storage.backend import ObjectInfo
from storage.layout import Generation

DEFAULT_ROOTS = ("", "log/")
"""Where sessions lie below the storage root. KubeRay's v1.6 examples write under the root
`log`, those of v1.7 under the bucket's; a reader without a root set must find both."""

LogId = tuple[str, str]
"""(node id, path below its logs folder)."""


@dataclass(slots=True)
class Listing:
    """Collected while the keys of one tree are read."""

    generation: Generation | None = None
    """The newest one of the event files met; None when there are none."""
    tree: Generation | None = None
    """Whose tree the logs and answers lie in, A or C: tells when there are no events."""
    events: dict[str, EventFile] = field(default_factory=dict)
    """By key."""
    logs: dict[LogId, list[LogPart]] = field(default_factory=dict)
    log_sizes: dict[LogId, int] = field(default_factory=dict)
    """Sizes that manifests tell of; gaps at the end may make them larger than the parts are."""
    snapshots: dict[str, SnapshotFile] = field(default_factory=dict)
    """By name."""
    reports: list[NodeReport] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    """One text for each thing that the content depends on; the fingerprint is made of them."""
    newest_ms: int = 0

    def met(self, generation: Generation) -> None:
        """Note that something of this generation is here."""
        order = list(Generation)
        if self.generation is None or order.index(generation) > order.index(self.generation):
            self.generation = generation

    def mark(self, info: ObjectInfo) -> None:
        """Note an object that the content depends on."""
        self.marks.append(f"{info.key}\0{info.size_bytes}\0{info.etag}")
        self.newest_ms = max(self.newest_ms, info.modified_ms)

    def add_log(self, node_id: str, path: str, part: LogPart) -> None:
        """Note where bytes of a log are."""
        self.logs.setdefault((node_id, path), []).append(part)

    def join(self, other: Listing) -> None:
        """Add what another tree holds. Its snapshots win, so join ours last."""
        if other.generation is not None:
            self.met(other.generation)
        self.tree = other.tree or self.tree
        self.events |= other.events
        for log_id, parts in other.logs.items():
            self.logs.setdefault(log_id, []).extend(parts)
        for log_id, size_bytes in other.log_sizes.items():
            self.log_sizes[log_id] = max(size_bytes, self.log_sizes.get(log_id, 0))
        self.snapshots |= other.snapshots
        self.reports += other.reports
        self.marks += other.marks
        self.newest_ms = max(self.newest_ms, other.newest_ms)

    def log_files(self) -> tuple[LogFile, ...]:
        """The logs with their parts in order, none overlapping."""
        files = []
        for log_id in sorted(self.logs.keys() | self.log_sizes.keys()):
            parts = merged_parts(self.logs.get(log_id, ()))
            end = parts[-1].log_start + parts[-1].log_length if parts else 0
            size_bytes = max(end, self.log_sizes.get(log_id, 0))
            files.append(LogFile(*log_id, size_bytes=size_bytes, parts=parts))
        return tuple(files)


def merged_parts(parts: Iterable[LogPart]) -> tuple[LogPart, ...]:
    """Sort the parts of one log and take away what overlaps; gaps stay.

    A frame cannot be entered in its middle, so where two parts overlap the earlier one is cut
    short; only a plain object is begun later. What a part covers completely is dropped.
    """
    order = sorted(parts, key=lambda p: (p.log_start, -p.log_length, p.framing, p.key))
    merged: list[LogPart] = []
    covered = 0
    for part in order:
        end = part.log_start + part.log_length
        if part.log_length <= 0 or end <= covered:
            continue
        if merged and part.log_start < covered:
            if part.framing == "plain":
                part = _begun_later(part, covered - part.log_start)
            else:
                while merged and merged[-1].log_start >= part.log_start:
                    merged.pop()
                if merged and merged[-1].log_start + merged[-1].log_length > part.log_start:
                    merged[-1] = _cut_short(merged[-1], part.log_start)
        merged.append(part)
        covered = end
    return tuple(merged)


def _begun_later(part: LogPart, by_bytes: int) -> LogPart:
    return LogPart(
        part.key,
        part.log_start + by_bytes,
        part.log_length - by_bytes,
        part.framing,
        part.object_start + by_bytes,
        part.object_length,
    )


def _cut_short(part: LogPart, end: int) -> LogPart:
    return LogPart(
        part.key,
        part.log_start,
        end - part.log_start,
        part.framing,
        part.object_start,
        part.object_length,
    )


def fingerprint(marks: Iterable[str]) -> str:
    """A short, stable name of what a session is made of, whatever the order of listing."""
    digest = hashlib.sha256()
    for mark in sorted(set(marks)):
        digest.update(mark.encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()[:32]
