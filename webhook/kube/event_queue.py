"""What Events wait to be told: pure, bounded, each kind of message of a cluster once.

The first of a kind is due at once; what repeats is counted and told together, minutes later.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from webhook.facts import ClusterFacts


@dataclass(frozen=True, slots=True)
class EventKey:
    """What makes two Events the same."""

    namespace: str
    cluster: str
    uid: str
    reason: str
    kind: str


@dataclass(slots=True)
class _Waiting:
    cluster: ClusterFacts
    message: str
    count: int
    due_s: float
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Due:
    """An Event to tell now, and how often it happened."""

    key: EventKey
    cluster: ClusterFacts
    message: str
    count: int
    attempts: int


class EventQueue:
    """Not safe for threads: its owner locks. Times are given, never read."""

    def __init__(self, *, most: int, repeat_s: float, most_per_s: float, burst: int) -> None:
        """At most `burst` at once and `most_per_s` in the long run, of `most` kinds."""
        self._most = most
        self._repeat_s = repeat_s
        self._most_per_s = most_per_s
        self._burst = burst
        self._tokens = float(burst)
        self._filled_s = 0.0
        self._waiting: OrderedDict[EventKey, _Waiting] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: EventKey, cluster: ClusterFacts, message: str, now_s: float) -> bool:
        """Add one; False when there are too many already, and it is dropped."""
        entry = self._waiting.get(key)
        if entry is not None:
            entry.count += 1
            entry.message = message
            return True
        if len(self._waiting) >= self._most:
            self._forget_told(now_s)
        if len(self._waiting) >= self._most:
            return False
        self._waiting[key] = _Waiting(cluster, message, 1, now_s)
        return True

    def take(self, now_s: float) -> Due | None:
        """The next Event to tell now, if any; the rate is kept."""
        self._tokens = min(
            float(self._burst), self._tokens + (now_s - self._filled_s) * self._most_per_s
        )
        self._filled_s = now_s
        if self._tokens < 1:
            return None
        for key, entry in self._waiting.items():
            if entry.count and entry.due_s <= now_s:
                self._tokens -= 1
                due = Due(key, entry.cluster, entry.message, entry.count, entry.attempts)
                entry.count, entry.attempts = 0, 0
                entry.due_s = now_s + self._repeat_s
                self._waiting.move_to_end(key)
                return due
        return None

    def put_back(self, due: Due, now_s: float, *, after_s: float) -> None:
        """It could not be told: keep its count, try again later."""
        entry = self._waiting.get(due.key)
        if entry is None:
            entry = self._waiting[due.key] = _Waiting(due.cluster, due.message, 0, now_s)
        entry.count += due.count
        entry.attempts = due.attempts + 1
        entry.due_s = now_s + after_s

    def next_s(self, now_s: float) -> float:
        """How long there is nothing to do; infinite when nothing waits."""
        waits = (entry.due_s - now_s for entry in self._waiting.values() if entry.count)
        wait_s = max(0.0, min(waits, default=math.inf))
        if self._tokens < 1 and wait_s < math.inf:
            wait_s = max(wait_s, (1 - self._tokens) / self._most_per_s)
        return wait_s

    def unsent(self) -> int:
        """How many would be lost if it ended now."""
        return sum(entry.count for entry in self._waiting.values())

    def _forget_told(self, now_s: float) -> None:
        told = [
            key for key, entry in self._waiting.items() if not entry.count and entry.due_s <= now_s
        ]
        for key in told:
            del self._waiting[key]
