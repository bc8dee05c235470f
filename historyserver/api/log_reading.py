"""The bytes of a log: the last lines found from the end, by ranges, in bounded memory.

A 1 GiB log costs as much as its last lines do. A line may be 10 MB, and bytes need not be text:
nothing here decodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

FIRST_BLOCK_BYTES = 64 * 1024
MAX_BLOCK_BYTES = 1024 * 1024
KEPT_BYTES = 4 * 1024 * 1024
"""So much of the tail is kept from the search for its start; more is read a second time."""
ANSI_TAIL_BYTES = 64
"""An escape sequence cut by a chunk's end is at most so long."""

_ANSI = re.compile(rb"\x1b\[[0-9;]*m")
_ANSI_BEGUN = re.compile(rb"\x1b(\[[0-9;]*)?\Z")

ReadRange = Callable[[int, int], Iterator[bytes]]
"""Yields the bytes from a start to an end offset; what was never stored yields nothing."""


def all_of(read: ReadRange, start: int, end: int) -> Iterator[bytes]:
    """Everything between two offsets."""
    if end > start:
        yield from read(start, end)


def last_lines(read: ReadRange, start: int, end: int, *, lines: int) -> Iterator[bytes]:
    """The last lines between two offsets, in order; an unended last line counts as one."""
    if end <= start or lines <= 0:
        return
    missing = lines
    at = end
    block_bytes = FIRST_BLOCK_BYTES
    kept: list[bytes] | None = []
    while at > start:
        block_start = max(start, at - block_bytes)
        block = b"".join(read(block_start, at))
        if at == end and not block.endswith(b"\n"):
            missing -= 1
        ends = block.count(b"\n")
        if ends > missing:
            cut = _after_newline_from_end(block, missing)
            block, block_start = block[cut:], block_start + cut
            yield from _join(read, block, kept, block_start, end)
            return
        missing -= ends
        kept = _keep(kept, block)
        at = block_start
        block_bytes = min(block_bytes * 2, MAX_BLOCK_BYTES)
    yield from _join(read, b"", kept, start, end)


def without_ansi(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Drop colour sequences, also those cut by the end of a chunk."""
    held = b""
    for chunk in chunks:
        data = held + chunk
        begun = _ANSI_BEGUN.search(data, max(0, len(data) - ANSI_TAIL_BYTES))
        held = data[begun.start() :] if begun else b""
        clean = _ANSI.sub(b"", data[: begun.start()] if begun else data)
        if clean:
            yield clean
    if held:
        yield held


def _after_newline_from_end(block: bytes, lines: int) -> int:
    """Where the part after the (lines + 1)-th newline from the end begins."""
    at = len(block)
    for _ in range(lines + 1):
        at = block.rindex(b"\n", 0, at)
    return at + 1


def _keep(kept: list[bytes] | None, block: bytes) -> list[bytes] | None:
    if kept is None or sum(map(len, kept)) + len(block) > KEPT_BYTES:
        return None
    return [block, *kept]


def _join(
    read: ReadRange, first: bytes, kept: list[bytes] | None, start: int, end: int
) -> Iterator[bytes]:
    if kept is None:
        yield from read(start, end)
        return
    if first:
        yield first
    yield from kept
