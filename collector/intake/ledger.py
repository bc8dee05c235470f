"""How many events of each session and node were received, and what became of them.

Written by the disk thread, emptied by the shipper at every manifest, whose local state keeps
the sums across restarts. A killed collector forgets what it counted since the last manifest,
never an event.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from collector.journal.recovery import PENDING_NODE
from storage.wire import EventTotals


@dataclass(slots=True)
class BatchCounts:
    """What one group of batches held of one session and node."""

    received: int = 0
    duplicates: int = 0
    stored: int = 0


class Ledger:
    """What was counted and not yet taken. Safe from any thread.

    Quarantined events often name no session; they count for the one that is asked for next,
    which is the session that runs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pairs: dict[tuple[str, str], EventTotals] = {}
        self._homeless = 0

    def add(self, session: str, node_id: str, counts: BatchCounts) -> None:
        """Count events that are filed under this session and node."""
        with self._lock:
            total = self._pairs.setdefault((session, node_id), EventTotals())
            total.received += counts.received
            total.duplicates += counts.duplicates
            total.stored += counts.stored

    def add_quarantined(self, count: int) -> None:
        """Count bad events."""
        with self._lock:
            self._homeless += count

    def take(self, session: str, node_id: str) -> EventTotals:
        """What was counted since the last call, with what came before the node was known."""
        taken = EventTotals()
        with self._lock:
            for node in (node_id, PENDING_NODE):
                total = self._pairs.pop((session, node), EventTotals())
                taken.received += total.received
                taken.duplicates += total.duplicates
                taken.stored += total.stored
            taken.quarantined = self._homeless
            taken.received += self._homeless
            self._homeless = 0
        return taken
