"""Keeps what could not be filed as an event, within a bound, so that nothing vanishes unseen.

Ray resends a refused batch for ever and everything behind it waits, so bad events are
acknowledged; here they are kept for whoever looks for the fault. The folder is not shipped.
Two kinds of files: `events.jsonl` with one record per bad event or small body, and one
`<time>.body` per body that was too large to look into, cut to what the bound leaves.
"""

from __future__ import annotations

import base64
import logging
import os
import threading
import time
from collections import OrderedDict
from hashlib import blake2b
from pathlib import Path

import msgspec

from collector.intake.envelope import EXCERPT_BYTES, Reason
from collector.intake.ledger import Ledger
from collector.metrics import CollectorMetrics, UnkeptReason

log = logging.getLogger(__name__)

REMEMBERED = 10_000


class Record(msgspec.Struct):
    """One line of `events.jsonl`."""

    time_ms: int
    reason: str
    size_bytes: int
    base64: str
    """The first `EXCERPT_BYTES` of what came."""


class Quarantine:
    """The bounded folder of bad events; safe from any thread.

    Args:
        directory: where; made if it is not there.
        max_bytes: what it may hold in all.
        metrics: counts by reason.
        ledger: counts for the manifest.

    """

    def __init__(
        self, directory: Path, *, max_bytes: int, metrics: CollectorMetrics, ledger: Ledger
    ) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._ledger = ledger
        self._lock = threading.Lock()
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._size_bytes = sum(entry.stat().st_size for entry in os.scandir(directory))

    @property
    def size_bytes(self) -> int:
        """What the folder holds."""
        return self._size_bytes

    def add(self, reason: Reason, raw: bytes, size_bytes: int) -> bool:
        """Keep one bad event or small body, and count it; the same bytes only once.

        `raw` may be no more than the start of the `size_bytes` that came.

        Ray may resend the batch that held it (after a 503 or a late answer). Returns
        whether it was new.
        """
        excerpt = raw[:EXCERPT_BYTES]
        key = blake2b(b"%d:%b" % (size_bytes, excerpt), digest_size=16).digest()
        with self._lock:
            if key in self._seen:
                return False
            self._seen[key] = None
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
            record = Record(
                time_ms=time.time_ns() // 1_000_000,
                reason=reason.value,
                size_bytes=size_bytes,
                base64=base64.b64encode(excerpt).decode("ascii"),
            )
            self._append(msgspec.json.encode(record) + b"\n")
        self._count(reason)
        return True

    def count_only(self, reason: Reason) -> None:
        """Count a bad event that is not kept: its body had very many."""
        self._count(reason)
        self._count_unkept(UnkeptReason.TOO_MANY)

    def add_file(self, reason: Reason, path: Path) -> None:
        """Take over a file that holds the start of a body, or all of it."""
        self._count(reason)
        kept_bytes = path.stat().st_size
        with self._lock:
            if self._size_bytes + kept_bytes > self._max_bytes:
                path.unlink()
                self._count_unkept(UnkeptReason.FULL)
                return
            try:
                path.rename(self._directory / f"{time.time_ns()}-{reason.value}.body")
            except OSError as error:
                self._tell_not_writable(error)
                return
            self._size_bytes += kept_bytes

    def room_bytes(self) -> int:
        """How much more the folder may take."""
        return max(0, self._max_bytes - self._size_bytes)

    def _append(self, record: bytes) -> None:
        if self._size_bytes + len(record) > self._max_bytes:
            self._count_unkept(UnkeptReason.FULL)
            return
        path = self._directory / "events.jsonl"
        try:
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                self._size_bytes += os.write(handle, record)
            finally:
                os.close(handle)
        except OSError as error:
            self._tell_not_writable(error)

    def _tell_not_writable(self, error: OSError) -> None:
        self._count_unkept(UnkeptReason.NOT_WRITABLE)
        log.error("quarantine not writable", extra={"error": str(error)})

    def _count(self, reason: Reason) -> None:
        self._metrics.quarantined.labels(reason.value).inc()
        self._ledger.add_quarantined(1)

    def _count_unkept(self, reason: UnkeptReason) -> None:
        self._metrics.quarantine_unkept.labels(reason.value).inc()
