"""What an earlier process of the collector left in the data directory.

A process that is killed can leave a last line that was written in part. It was never
acknowledged, so it is cut away, and Ray sends it again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from collector.journal.segments import Segment
from storage.layout import JOB_EVENTS, NODE_EVENTS, Category, is_ray_node_id, is_session_name

log = logging.getLogger(__name__)

PENDING_NODE = "pending"
"""The node folder of events that came before the node id was known and did not name one."""

_BLOCK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Recovered:
    """The segments found, and how many bytes of torn lines were cut."""

    segments: tuple[Segment, ...]
    torn_bytes: int


def recover(data_dir: Path) -> Recovered:
    """Find the segments on disk, oldest first; cut torn tails, delete empty files."""
    segments: list[Segment] = []
    torn_bytes = 0
    for path, session, node_id, category in _segment_files(data_dir):
        try:
            created_ns = int(path.stem)
            cut_bytes = _cut_torn_tail(path)
            size_bytes, events = _measure(path)
            if not size_bytes:
                path.unlink()
        except (OSError, ValueError) as error:
            log.warning("segment skipped", extra={"path": str(path), "error": str(error)})
            continue
        torn_bytes += cut_bytes
        if size_bytes:
            segments.append(
                Segment(path, session, node_id, category, created_ns, events, size_bytes, True)
            )
    segments.sort(key=lambda segment: segment.created_ns)
    return Recovered(tuple(segments), torn_bytes)


def last_lines(segments: tuple[Segment, ...], limit: int) -> Iterator[bytes]:
    """Yield lines of these segments, newest segments first, until `limit` is reached."""
    left = limit
    for segment in sorted(segments, key=_changed_ns, reverse=True):
        skip = max(0, segment.events - left)
        try:
            with segment.path.open("rb") as file:
                for number, line in enumerate(file):
                    if number >= skip:
                        yield line
        except OSError as error:
            fields = {"path": str(segment.path), "error": str(error)}
            log.warning("segment unreadable", extra=fields)
        left -= min(left, segment.events)
        if not left:
            return


def _changed_ns(segment: Segment) -> int:
    try:
        return segment.path.stat().st_mtime_ns
    except OSError:
        return 0


def _segment_files(data_dir: Path) -> Iterator[tuple[Path, str, str, Category]]:
    for session_dir in _folders(data_dir):
        if not is_session_name(session_dir.name):
            continue
        for node_dir in _folders(session_dir):
            if not is_ray_node_id(node_dir.name) and node_dir.name != PENDING_NODE:
                continue
            place = (session_dir.name, node_dir.name)
            for path in (node_dir / "node_events").glob("*.jsonl"):
                yield (path, *place, NODE_EVENTS)
            for job_dir in _folders(node_dir / JOB_EVENTS):
                for path in job_dir.glob("*.jsonl"):
                    yield (path, *place, (JOB_EVENTS, job_dir.name))


def _folders(directory: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(directory) if entry.is_dir())
    except FileNotFoundError:
        return []


def _cut_torn_tail(path: Path) -> int:
    """Cut what follows the last newline; return how many bytes that was."""
    with path.open("r+b") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        end = size_bytes
        while end:
            start = max(0, end - _BLOCK_BYTES)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < size_bytes:
            file.truncate(end)
        return size_bytes - end


def _measure(path: Path) -> tuple[int, int]:
    """Size and number of lines, read in bounded memory."""
    size_bytes = lines = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            size_bytes += len(block)
            lines += block.count(b"\n")
    return size_bytes, lines
