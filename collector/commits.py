"""A group of POST bodies on their way to the journal: split, deduplicated, written together.

Used from the disk thread only. All events of the waiting bodies go to each segment with one
write (group commit). A body is good when every event of it is on disk: one whose segment could
not be written fails as a whole, Ray sends it again, and what was stored of it is then known
as duplicate.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from mmap import mmap

from collector.dedupe import Window, digest
from collector.envelope import (
    EXCERPT_BYTES,
    BadEvent,
    BodyError,
    Event,
    Reason,
    read_event,
    split,
)
from collector.journal import Journal, NoSpaceError
from collector.journal.active import SegmentKey
from collector.ledger import BatchCounts, Ledger
from collector.metrics import CollectorMetrics
from collector.quarantine import Quarantine

log = logging.getLogger(__name__)

FLUSH_BYTES = 8 * 1024 * 1024
"""A very large body is written in parts, so that its lines are not all in memory at once."""

MAX_KEPT_PER_BODY = 1_000
"""Of one body's bad events so many are kept; the others are only counted."""

NodeOf = Callable[[Event], str]
"""Which node's folder an event belongs to."""


@dataclass(slots=True)
class Batch:
    """One POST body and its outcome."""

    body: bytes | mmap
    error: Exception | None = None
    """Why it is not stored; None when it is, after `Group.close`."""
    keys: set[SegmentKey] = field(default_factory=set)
    """The segments it depends on, and that are not written yet."""


@dataclass(frozen=True, slots=True)
class CommitParts:
    """What a group works with."""

    journal: Journal
    window: Window
    quarantine: Quarantine
    ledger: Ledger
    metrics: CollectorMetrics
    node_of: NodeOf


class Group:
    """Bodies that are committed together: `add` each, then `close`."""

    def __init__(self, parts: CommitParts) -> None:
        self._parts = parts
        self._batches: list[Batch] = []
        self._lines: dict[SegmentKey, list[bytes]] = {}
        self._digests: dict[bytes, SegmentKey] = {}
        self._counts: dict[str, BatchCounts] = {}
        self._size_bytes = 0

    def add(self, batch: Batch) -> None:
        """Take a body in; its `error` is final after `close`."""
        self._batches.append(batch)
        self._parts.metrics.received_bytes.inc(len(batch.body))
        try:
            events = split(batch.body)
        except BodyError as error:
            self._quarantine_body(batch, error.reason)
            return
        bad: Counter[Reason] = Counter()
        for raw in events:
            event = read_event(raw)
            if isinstance(event, Event):
                self._add_event(batch, event)
            else:
                self._add_bad(event, keep=bad.total() < MAX_KEPT_PER_BODY)
                bad[event.reason] += 1
        self._parts.metrics.received.inc(len(events))
        for reason, count in bad.items():
            log.warning("events quarantined", extra={"reason": reason.value, "events": count})

    def close(self) -> None:
        """Write what is left; after this every batch's `error` is final."""
        self._flush()

    def _add_event(self, batch: Batch, event: Event) -> None:
        counts = self._counts.setdefault(event.session, BatchCounts())
        counts.received += 1
        key_digest = digest(event.event_id)
        waiting_for = self._digests.get(key_digest)
        if waiting_for is not None or key_digest in self._parts.window:
            counts.duplicates += 1
            self._parts.metrics.duplicates.inc()
            if waiting_for is not None:
                batch.keys.add(waiting_for)
            return
        node_id = self._parts.node_of(event)
        key = SegmentKey(event.session, node_id, event.category)
        self._lines.setdefault(key, []).append(event.line)
        self._digests[key_digest] = key
        batch.keys.add(key)
        self._size_bytes += len(event.line) + 1
        if self._size_bytes >= FLUSH_BYTES:
            self._flush()

    def _add_bad(self, event: BadEvent, *, keep: bool) -> None:
        if keep:
            self._parts.quarantine.add(event.reason, event.raw, event.size_bytes)
        else:
            self._parts.quarantine.count(event.reason)

    def _quarantine_body(self, batch: Batch, reason: Reason) -> None:
        size_bytes = len(batch.body)
        self._parts.quarantine.add(reason, batch.body[:EXCERPT_BYTES], size_bytes)
        fields = {"reason": reason.value, "size_bytes": size_bytes}
        log.warning("body quarantined", extra=fields)

    def _flush(self) -> None:
        failed = self._write()
        stored = [d for d, key in self._digests.items() if key not in failed]
        self._parts.window.add_all(stored)
        for key, lines in self._lines.items():
            if key not in failed:
                self._counts[key.session].stored += len(lines)
                self._parts.metrics.stored.inc(len(lines))
        for session, counts in self._counts.items():
            self._parts.ledger.add(session, counts)
        for batch in self._batches:
            errors = [failed[key] for key in batch.keys if key in failed]
            batch.error = batch.error or (errors[0] if errors else None)
            batch.keys.clear()
        self._lines, self._digests, self._counts = {}, {}, {}
        self._size_bytes = 0

    def _write(self) -> dict[SegmentKey, Exception]:
        """Append the lines; return what failed."""
        journal = self._parts.journal
        failed: dict[SegmentKey, Exception] = {}
        try:
            journal.check_space(self._size_bytes)
        except (NoSpaceError, OSError) as error:
            return dict.fromkeys(self._lines, error)
        for key, lines in self._lines.items():
            try:
                journal.append(key, lines)
            except OSError as error:
                failed[key] = error
                fields = {"session": key.session, "error": str(error)}
                log.error("journal write failed", extra=fields)
        return failed
