"""Cuts a body of very many events into arrays that can be split in bounded memory.

Ray sends 1,000 events at a time, but may be told to send its whole buffer of 100,000 at once.
Splitting takes some memory for each part, so that a body is never split in one go when it has
more commas than a batch of Ray's default size by far.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from mmap import mmap

import msgspec

from collector.intake.envelope import MAX_COMMAS, MAX_EVENT_BYTES, BodyError, Reason, commas, split

PIECE_BYTES = 2 * 1024 * 1024
MAX_COMMAS_IN_ALL = 8_000_000
"""Some 250,000 events of Ray; a body of nothing but commas must not keep the disk thread busy."""

_MAX_TRIES = 64
_BETWEEN_OBJECTS = re.compile(rb"\}\s*,\s*(?=\{)")
_START = re.compile(rb"\s*\[")


def pieces(body: bytes | mmap) -> Iterator[list[msgspec.Raw]]:
    """Yield all events of a body, some thousands at a time. Raises `BodyError`, maybe later on."""
    total = commas(body)
    start = _START.match(body)
    if total <= MAX_COMMAS or start is None:
        yield split(body)
        return
    if total > MAX_COMMAS_IN_ALL:
        raise BodyError(Reason.BODY_TOO_MANY_PARTS)
    at = start.end()
    del start  # it holds a mapped body open
    while at < len(body):
        events, at = _next(body, at)
        yield events


def _next(body: bytes | mmap, at: int) -> tuple[list[msgspec.Raw], int]:
    """The events from `at` to the first good place to cut after a piece's size, and that place.

    Where two objects meet may be inside an event, or in a string. But when what comes before is
    a whole array once it is closed, it is not.
    """
    search_from = at + PIECE_BYTES
    for _ in range(_MAX_TRIES):
        found = _BETWEEN_OBJECTS.search(body, search_from)
        if found is None:
            if len(body) - at > PIECE_BYTES + MAX_EVENT_BYTES:
                break
            return split(b"[" + body[at:]), len(body)
        try:
            return split(b"[" + body[at : found.start() + 1] + b"]"), found.end()
        except BodyError as error:
            if error.reason is Reason.BODY_TOO_MANY_PARTS:
                raise
        search_from = found.start() + 1
    raise BodyError(Reason.BODY_TOO_MANY_PARTS)
