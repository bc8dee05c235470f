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

from msgspec import Raw

from collector.intake.dedupe import Window, digest
from collector.intake.envelope import (
    EXCERPT_BYTES,
    BadEvent,
    BodyError,
    Event,
    Reason,
    read_event,
)
from collector.intake.ledger import BatchCounts, Ledger
from collector.intake.pieces import pieces
from collector.intake.quarantine import Quarantine
from collector.journal import Journal, NoSpaceError
from collector.journal.active import SegmentKey
from collector.metrics import CollectorMetrics
from storage.layout import Category

log = logging.getLogger(__name__)

FLUSH_BYTES = 8 * 1024 * 1024
"""A very large body is written in parts, so that its lines are not all in memory at once."""

MAX_KEPT_PER_BODY = 1_000
"""Of one body's bad events so many are kept; the others are only counted."""

NodeOf = Callable[[Event], str]
"""Which node's folder an event belongs to."""


@dataclass(slots=True, eq=False)
class _Target:
    """One segment, and what is to be written to it with one write."""

    key: SegmentKey
    lines: list[bytes] = field(default_factory=list)
    counts: BatchCounts = field(default_factory=BatchCounts)
    error: Exception | None = None


@dataclass(slots=True)
class Batch:
    """One POST body and its outcome."""

    body: bytes | mmap
    error: Exception | None = None
    """Why it is not stored; None when it is, after `Group.close`."""
    targets: set[_Target] = field(default_factory=set)
    """What it depends on, and that is not written yet."""


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
        self._targets: dict[tuple[str, str, Category], _Target] = {}
        self._digests: dict[bytes, _Target] = {}
        self._size_bytes = 0

    def add(self, batch: Batch) -> None:
        """Take a body in; its `error` is final after `close`."""
        self._batches.append(batch)
        self._parts.metrics.received_bytes.inc(len(batch.body))
        bad: Counter[Reason] = Counter()
        try:
            for events in pieces(batch.body):
                self._add_events(batch, events, bad)
        except BodyError as error:
            self._quarantine_body(batch, error.reason)
        for reason, count in bad.items():
            log.warning("events quarantined", extra={"reason": reason.value, "events": count})

    def _add_events(self, batch: Batch, events: list[Raw], bad: Counter[Reason]) -> None:
        for raw in events:
            event = read_event(raw)
            if isinstance(event, Event):
                self._add_event(batch, event)
            else:
                self._add_bad(event, keep=bad.total() < MAX_KEPT_PER_BODY)
                bad[event.reason] += 1
        self._parts.metrics.received.inc(len(events))

    def close(self) -> None:
        """Write what is left; after this every batch's `error` is final."""
        self._flush()

    def _add_event(self, batch: Batch, event: Event) -> None:
        place = (event.session, self._parts.node_of(event), event.category)
        target = self._targets.get(place)
        if target is None:
            target = self._targets[place] = _Target(SegmentKey(*place))
        target.counts.received += 1
        key_digest = digest(event.event_id)
        waiting_for = self._digests.get(key_digest)
        if waiting_for is not None or key_digest in self._parts.window:
            target.counts.duplicates += 1
            if waiting_for is not None:
                batch.targets.add(waiting_for)
            return
        target.lines.append(event.line)
        self._digests[key_digest] = target
        batch.targets.add(target)
        self._size_bytes += len(event.line) + 1
        if self._size_bytes >= FLUSH_BYTES:
            self._flush()

    def _add_bad(self, event: BadEvent, *, keep: bool) -> None:
        if keep:
            self._parts.quarantine.add(event.reason, event.raw, event.size_bytes)
        else:
            self._parts.quarantine.count_only(event.reason)

    def _quarantine_body(self, batch: Batch, reason: Reason) -> None:
        size_bytes = len(batch.body)
        self._parts.quarantine.add(reason, batch.body[:EXCERPT_BYTES], size_bytes)
        fields = {"reason": reason.value, "size_bytes": size_bytes}
        log.warning("body quarantined", extra=fields)

    def _flush(self) -> None:
        self._write()
        self._parts.window.add_all(d for d, target in self._digests.items() if not target.error)
        metrics = self._parts.metrics
        for target in self._targets.values():
            if target.error is None:
                target.counts.stored = len(target.lines)
            metrics.stored.inc(target.counts.stored)
            metrics.duplicates.inc(target.counts.duplicates)
            self._parts.ledger.add(target.key.session, target.key.node_id, target.counts)
        for batch in self._batches:
            errors = [target.error for target in batch.targets if target.error]
            batch.error = batch.error or (errors[0] if errors else None)
            batch.targets.clear()
        self._targets, self._digests = {}, {}
        self._size_bytes = 0

    def _write(self) -> None:
        """Append the lines; what failed has an error."""
        targets = [target for target in self._targets.values() if target.lines]
        try:
            self._parts.journal.check_space(self._size_bytes)
        except (NoSpaceError, OSError) as error:
            for target in targets:
                target.error = error
            return
        for target in targets:
            try:
                self._parts.journal.append(target.key, target.lines)
            except OSError as error:
                target.error = error
                fields = {"session": target.key.session, "error": str(error)}
                log.error("journal write failed", extra=fields)
