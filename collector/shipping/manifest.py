"""What is stored of one node: the book behind `manifest.json`, and its copy on the local disk.

The local copy (`state.json`) is written before each manifest is stored, so that it is never
older than what storage says; a collector that is killed anywhere continues from it without
losing or repeating anything. It also remembers what the manifest need not tell: which file
on this disk is which stored log, and which journal segment a live frame came from.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from collector.tails import LogFrameData, TailState
from collector.tails.files import FileId
from collector.whole_files import replace_file
from storage.wire import (
    EventFileEntry,
    EventFrame,
    EventTotals,
    LogEntry,
    LogFrame,
    NodeManifest,
)

STATE_SCHEMA = 1


class StateError(Exception):
    """The local state file cannot be used; what to do is in the message."""


class StoredLog(msgspec.Struct):
    """Where the bytes of one log incarnation are in storage."""

    frames: list[LogFrame] = []
    key: str | None = None
    """The plain object with the whole content, which makes frames superfluous."""
    key_bytes: int = 0

    @property
    def stored_bytes(self) -> int:
        """How much of the log, from its start, can be read from storage."""
        if self.key is not None:
            return self.key_bytes
        return max((frame.log_start + frame.log_length for frame in self.frames), default=0)


class HotEvents(msgspec.Struct):
    """One frame of event lines, and the journal segment that it is a part of."""

    frame: EventFrame
    segment: str
    """Path of the journal's file; empty when only storage knows of the frame."""


class ShippingState(msgspec.Struct, kw_only=True):
    """All that a restarted collector needs to go on."""

    schema: int = STATE_SCHEMA
    session: str
    node_id: str
    next_seq: int = 1
    tails: list[TailState] = []
    logs: dict[str, StoredLog] = {}
    """By incarnation."""
    hot_events: list[HotEvents] = []
    event_files: list[EventFileEntry] = []
    segments: dict[int, int] = {}
    """Size of each live segment that is in storage, by its number."""
    totals: EventTotals = msgspec.field(default_factory=EventTotals)
    """Counts of events, by this process and the ones before."""
    log_dropped: dict[str, int] = {}


class ManifestBook:
    """The content of one node's manifest, changed by what shipping reports. Not thread-safe.

    Args:
        session: session name.
        node_id: whose manifest it is.
        role: `head` or `worker`.
        collector_version: told in the manifest.
        path: the local `state.json`.
        now_ms: wall clock.

    """

    def __init__(
        self,
        *,
        session: str,
        node_id: str,
        role: str,
        collector_version: str,
        path: Path,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._role = role
        self._collector_version = collector_version
        self._path = path
        self._now_ms = now_ms
        self.state = ShippingState(session=session, node_id=node_id)

    # -- the copy on the local disk ------------------------------------------------------

    def load(self) -> bool:
        """Read what an earlier process left; False when it left nothing.

        Raises `StateError` when there is a file that cannot be used. It is moved aside, so
        that the next start does not meet it again.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StateError(f"{self._path}: cannot be read: {error}") from error
        try:
            state = msgspec.json.decode(data, type=ShippingState)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._put_aside()
            raise StateError(f"{self._path}: damaged, put aside: {error}") from error
        mine = (STATE_SCHEMA, self.state.session, self.state.node_id)
        if (state.schema, state.session, state.node_id) != mine:
            self._put_aside()
            raise StateError(f"{self._path}: of another session, node or version, put aside")
        self.adopt(state)
        return True

    def adopt(self, state: ShippingState) -> None:
        """Continue from this state; what was counted already is added to its counts."""
        state.totals = _sum(state.totals, self.state.totals)
        self.state = state

    def save(self, tails: Iterable[TailState], counted: EventTotals) -> None:
        """Write the local copy: whole or not at all, and on the device before it returns.

        Args:
            tails: how far each log file was read.
            counted: events since the last call; added even when the disk does not take them.

        """
        self.state.tails = list(tails)
        self.state.totals = _sum(self.state.totals, counted)
        replace_file(self._path, msgspec.json.encode(self.state), sync=True)

    def _put_aside(self) -> None:
        self._path.replace(self._path.with_suffix(".damaged"))

    # -- changes -------------------------------------------------------------------------

    def begin_segment(self) -> int:
        """The number of the next live segment; never given twice by this book."""
        seq = self.state.next_seq
        self.state.next_seq += 1
        return seq

    def add_segment(
        self,
        seq: int,
        size_bytes: int,
        *,
        logs: Iterable[tuple[LogFrameData, int]] = (),
        events: Iterable[HotEvents] = (),
    ) -> None:
        """A live segment is in storage.

        Args:
            seq: its number.
            size_bytes: its size.
            logs: its log frames, each with the place of the frame in the object. A frame
                replaces what the book had of its log from the frame's start on: that is
                how small frames are merged, and how a file that was written anew is told.
            events: its event frames.

        """
        self.state.segments[seq] = size_bytes
        for data, object_start in logs:
            log = self.log(data.incarnation)
            log.frames = [f for f in log.frames if f.log_start + f.log_length <= data.log_start]
            log.frames.append(
                LogFrame(
                    seq=seq,
                    object_start=object_start,
                    object_length=len(data.data),
                    log_start=data.log_start,
                    log_length=data.log_length,
                )
            )
            if log.key is not None and data.log_start + data.log_length >= log.key_bytes:
                log.key = None  # the frames tell at least as much, and go on
        self.state.hot_events.extend(events)

    def log(self, incarnation: str) -> StoredLog:
        """What is stored of this incarnation, for reading and changing."""
        return self.state.logs.setdefault(incarnation, StoredLog())

    def event_file_stored(self, segment: str, entry: EventFileEntry) -> None:
        """A journal segment is in storage as a cold object, which supersedes its live frames."""
        self.state.event_files = [e for e in self.state.event_files if e.key != entry.key]
        self.state.event_files.append(entry)
        self.supersede(segment)

    def supersede(self, segment: str) -> None:
        """Live frames of this journal segment are not needed any more."""
        self.state.hot_events = [hot for hot in self.state.hot_events if hot.segment != segment]

    def log_stored(self, incarnation: str, key: str, size_bytes: int) -> None:
        """A log incarnation is in storage as one plain object, which supersedes its frames."""
        log = self.log(incarnation)
        log.key, log.key_bytes, log.frames = key, size_bytes, []

    def unused_segments(self) -> list[int]:
        """The live segments that nothing in the book needs any more."""
        used = {hot.frame.seq for hot in self.state.hot_events}
        used.update(frame.seq for log in self.state.logs.values() for frame in log.frames)
        return sorted(seq for seq in self.state.segments if seq not in used)

    # -- the manifest --------------------------------------------------------------------

    def manifest(self, *, ended: bool, unshipped_events: int = 0) -> NodeManifest:
        """The document to store, of what was saved last.

        Args:
            ended: the collector is done with this session.
            unshipped_events: acknowledged events that are on this disk only.

        """
        state = self.state
        events = _sum(state.totals, EventTotals(dropped=unshipped_events))
        events.event_files = sorted(state.event_files, key=lambda entry: entry.key)
        # A killed process forgot counts, but its events were recovered from the journal.
        forgotten = max(0, sum(file.events for file in events.event_files) - events.stored)
        events.stored += forgotten
        events.received += forgotten
        return NodeManifest(
            node_id=state.node_id,
            role=self._role,
            session=state.session,
            state="ended" if ended else "running",
            updated_ms=self._now_ms(),
            collector_version=self._collector_version,
            events=events,
            logs=self._log_entries(ended=ended),
            hot_events=[hot.frame for hot in state.hot_events],
            log_dropped=dict(state.log_dropped),
        )

    def _log_entries(self, *, ended: bool) -> list[LogEntry]:
        entries = []
        for tail in self.state.tails:
            log = self.state.logs.get(tail.incarnation, StoredLog())
            entry = LogEntry(path=tail.path, size_bytes=log.stored_bytes, key=log.key)
            entry.frames = list(log.frames)
            # While a file can still be read, its rest is late, not lost.
            if (tail.gone or ended) and not tail.rewritten and tail.size_bytes > entry.size_bytes:
                entry.gaps = [(entry.size_bytes, tail.size_bytes)]
                entry.size_bytes = tail.size_bytes
            entries.append(entry)
        return sorted(entries, key=lambda entry: entry.path)


def claimed_by_others(state_path: Path, node_id: str) -> dict[FileId, int]:
    """The files, with sizes, that collectors for other nodes of this session directory followed.

    A worker container that restarts joins the same session as a new node, in the same
    directory: the old node's logs are not the new one's.

    Args:
        state_path: `<state dir>/<session>/<node>/state.json` of this node.
        node_id: this node.

    """
    claimed: dict[FileId, int] = {}
    for path in sorted(state_path.parent.parent.glob("*/state.json")):
        if path.parent.name == node_id:
            continue
        with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            state = msgspec.json.decode(path.read_bytes(), type=ShippingState)
            for tail in state.tails:
                claimed[FileId(tail.device, tail.inode)] = tail.size_bytes
    return claimed


def _sum(one: EventTotals, other: EventTotals) -> EventTotals:
    return EventTotals(
        received=one.received + other.received,
        duplicates=one.duplicates + other.duplicates,
        quarantined=one.quarantined + other.quarantined,
        dropped=one.dropped + other.dropped,
        stored=one.stored + other.stored,
    )
