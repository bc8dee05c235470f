"""A bounded memory of response bodies: least recently used goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum


class AnswerOutcome(StrEnum):
    """How an answer about a session came."""

    NOT_MODIFIED = "not_modified"
    """The client has it."""
    REMEMBERED = "remembered"
    MADE = "made"


BodyKey = tuple[str, bool]
"""ETag, and whether the body is gzip."""


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A body and the headers that belong to it."""

    body: bytes
    headers: tuple[tuple[str, str], ...]


class BodyCache:
    """Bodies by key, up to a number of bytes in all. Safe for threads."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._bodies: OrderedDict[BodyKey, StoredBody] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """How much is held now."""
        return self._size_bytes

    def get(self, key: BodyKey) -> StoredBody | None:
        """The body, which becomes the most recently used."""
        with self._lock:
            stored = self._bodies.get(key)
            if stored is not None:
                self._bodies.move_to_end(key)
            return stored

    def put(self, key: BodyKey, stored: StoredBody) -> None:
        """Hold a body unless it alone would take more than a quarter of the memory."""
        size_bytes = len(stored.body)
        if size_bytes > self._max_bytes // 4:
            return
        with self._lock:
            previous = self._bodies.pop(key, None)
            if previous is not None:
                self._size_bytes -= len(previous.body)
            self._bodies[key] = stored
            self._size_bytes += size_bytes
            while self._size_bytes > self._max_bytes:
                _, dropped = self._bodies.popitem(last=False)
                self._size_bytes -= len(dropped.body)
