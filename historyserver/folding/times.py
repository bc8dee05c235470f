"""Times: RFC 3339 text with up to nine decimals, as nanoseconds since the epoch."""

from __future__ import annotations

import calendar
import time
from datetime import UTC, datetime

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

_FULL_LENGTH = len("2026-11-30T21:47:22.868928822Z")
"""Almost every time in Ray's events has nine decimals."""

_SECONDS_KEPT = 100_000
_seconds_ns: dict[str, int] = {}


class BadTimeError(ValueError):
    """The text is no time."""


def parse_time_ns(text: str) -> int:
    """Read a time to the nanosecond, which `datetime` would lose.

    Seconds are remembered: the events of a busy session share them.
    """
    seconds_ns = _seconds_ns.get(text[:19])
    if seconds_ns is None:
        seconds_ns = _remember(text[:19])
    elif len(text) == _FULL_LENGTH and text[29] == "Z" and (digits := text[20:29]).isdecimal():
        return seconds_ns + int(digits)
    rest = text[19:]
    if rest[-1:] != "Z":
        return _parse_with_zone(text)
    if rest == "Z":
        return seconds_ns
    digits = rest[1:-1]
    if rest[0] != "." or not digits.isdecimal() or len(digits) > 9:
        raise BadTimeError(f"{text[:80]!r} is no time")
    return seconds_ns + int(digits.ljust(9, "0"))


def _remember(seconds: str) -> int:
    try:
        found = calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) * NS_PER_S
    except ValueError as error:
        raise BadTimeError(f"{seconds[:80]!r} is no time") from error
    if found < 0:
        raise BadTimeError(f"{seconds[:80]!r} is before the epoch")
    if len(_seconds_ns) >= _SECONDS_KEPT:
        _seconds_ns.clear()
    _seconds_ns[seconds] = found
    return found


def _parse_with_zone(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadTimeError(f"{text[:80]!r} is no time") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * NS_PER_S + moment.microsecond * 1000


def utc_text(time_ms: int) -> str:
    """Write a time for people: `2026-11-30 21:47:28 UTC`."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
