"""The intake side put together without HTTP: journal, window, quarantine, disk thread."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from collector.intake.commits import Batch, CommitParts, Group
from collector.intake.dedupe import Window
from collector.intake.disk_thread import RECENT_IDS, DiskThread, restore_window
from collector.intake.envelope import Event
from collector.intake.ledger import Ledger
from collector.intake.quarantine import Quarantine
from collector.journal import Journal, JournalLimits
from collector.journal.recovery import PENDING_NODE
from collector.journal.segments import SegmentStore
from collector.metrics import CollectorMetrics

NO_RESERVE = JournalLimits(
    rotation_interval_s=300.0,
    max_segment_bytes=64 * 1024 * 1024,
    cap_bytes=2 * 1024**3,
    reserve_bytes=0,
)


class IntakeRig:
    """What the lifecycle puts together for the intake, on one data directory."""

    def __init__(
        self,
        data_dir: Path,
        *,
        limits: JournalLimits = NO_RESERVE,
        window: int = 10_000,
        quarantine_max_bytes: int = 1024 * 1024,
    ) -> None:
        self.data_dir = data_dir
        self.metrics = CollectorMetrics()
        self.window = Window(window)
        self.journal = Journal(
            data_dir,
            limits=limits,
            metrics=self.metrics,
            before_seal=lambda: self.window.save(data_dir / RECENT_IDS),
        )
        self.ledger = Ledger()
        self.quarantine = Quarantine(
            data_dir / "quarantine",
            max_bytes=quarantine_max_bytes,
            metrics=self.metrics,
            ledger=self.ledger,
        )
        self.nodes: dict[str, str] = {}
        self.parts = CommitParts(
            journal=self.journal,
            window=self.window,
            quarantine=self.quarantine,
            ledger=self.ledger,
            metrics=self.metrics,
            node_of=self._node_of,
        )
        restore_window(self.window, self.journal, data_dir, limit=window)

    def _node_of(self, event: Event) -> str:
        return self.nodes.get(event.session) or event.node_id or PENDING_NODE

    def disk_thread(self) -> DiskThread:
        """A disk thread for these parts; the caller starts and closes it."""
        return DiskThread(self.parts)

    def commit(self, *bodies: bytes) -> list[Exception | None]:
        """Commit bodies as one group; the outcome of each."""
        group = Group(self.parts)
        batches = [Batch(one) for one in bodies]
        for batch in batches:
            group.add(batch)
        group.close()
        return [batch.error for batch in batches]

    def metric(self, name: str, **labels: str) -> float:
        """The value of a counter."""
        value = self.metrics.registry.get_sample_value(f"rayhistory_collector_{name}", labels)
        return value or 0.0


def stored_ids(data_dir: Path) -> Counter[str]:
    """The event ids in all segments on disk, with how often each is there."""
    found: Counter[str] = Counter()
    for path in data_dir.glob("session_*/*/**/*.jsonl"):
        for line in path.read_bytes().splitlines():
            event: dict[str, Any] = json.loads(line)
            found[event["eventId"]] += 1
    return found


def hot_lines(store: SegmentStore) -> list[bytes]:
    """All lines that are not marked hot."""
    return [line for block in store.hot_blocks() for line in block.read().splitlines()]
