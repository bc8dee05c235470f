"""What could not be read of a session, and why: every loss is counted, none ends the reading."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

log = logging.getLogger(__name__)


class DamageReason(StrEnum):
    """Why bytes of a stored session were left out."""

    TRUNCATED_GZIP = "truncated_gzip"
    """The gzip stream ends early (a collector killed while it uploaded)."""
    CORRUPT_GZIP = "corrupt_gzip"
    CORRUPT_FRAME = "corrupt_frame"
    """A zstd frame of a live segment does not decompress."""
    TORN_LINE = "torn_line"
    """The last line has no end and is no whole JSON value."""
    TORN_ARRAY = "torn_array"
    """The JSON array of events has no end."""
    CORRUPT_ELEMENT = "corrupt_element"
    """An element of a JSON array of events is no JSON."""
    TRAILING_BYTES = "trailing_bytes"
    """Something that is neither gzip nor JSON follows the data."""
    LINE_TOO_LONG = "line_too_long"
    """One event is larger than `blocks.MAX_LINE_BYTES`."""
    SHORT_OBJECT = "short_object"
    """Fewer bytes came than were listed."""
    OBJECT_GONE = "object_gone"
    """The object was listed but is not there any more."""
    NOT_AN_EVENT_FRAME = "not_an_event_frame"
    """A frame of a segment that no manifest names does not hold events."""
    BAD_MANIFEST = "bad_manifest"
    BAD_SESSION_START = "bad_session_start"
    BAD_SESSION_END = "bad_session_end"
    BAD_OWNER = "bad_owner"
    """No owner can be called as `session.json` says; the session counts as without one."""
    BAD_SNAPSHOT = "bad_snapshot"
    UNKNOWN_KEY = "unknown_key"
    """A key inside the session's folders that no layout knows."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One loss: where, why, and how many stored (for gzip: compressed) bytes."""

    reason: DamageReason
    key: str
    size_bytes: int


class DamageLog:
    """Collects damage while a session is read. Plain data inside, so it pickles."""

    def __init__(self, items: Iterable[Damage] = ()) -> None:
        self.items: list[Damage] = list(items)

    def add(self, reason: DamageReason, key: str, size_bytes: int) -> None:
        """Count one loss, and say so in the log: the first of a reason loudly."""
        level = logging.DEBUG if any(i.reason is reason for i in self.items) else logging.WARNING
        self.items.append(Damage(reason, key, size_bytes))
        fields = {"key": key, "bytes": size_bytes, "reason": reason.value}
        log.log(level, "bytes were left out", extra=fields)

    def counts(self) -> dict[str, int]:
        """How often each reason occurred."""
        counts: dict[str, int] = {}
        for item in self.items:
            counts[item.reason.value] = counts.get(item.reason.value, 0) + 1
        return counts

    def __len__(self) -> int:
        return len(self.items)
