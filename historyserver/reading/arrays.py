"""A JSON array of events, read as a stream, to JSON lines.

KubeRay's collectors before v1.7 write each event file as one array (generations A, B and C-),
hundreds of megabytes for a large session, so it is never held whole. The fast way: cut the
buffer where an event must begin and let msgspec check and split what is before the cut (1 GB/s
measured). A cut is right exactly when what is before it is valid, so a wrong guess is always
noticed. Then, and where no cut is found, brackets and strings are followed. Where that meets
something that is no JSON, the events around it are saved one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from historyserver.reading.blocks import BLOCK_BYTES, MAX_LINE_BYTES
from historyserver.reading.damage import DamageLog, DamageReason
from historyserver.reading.scanning import (
    CUT,
    SPACE,
    Element,
    Scan,
    decode,
    last_cut,
    lines,
    pieces,
    scan,
)


def array_blocks(
    chunks: Iterable[bytes],
    *,
    key: str,
    damage: DamageLog,
    block_bytes: int = BLOCK_BYTES,
    max_element_bytes: int = MAX_LINE_BYTES,
) -> Iterator[bytes]:
    r"""Yield the elements of the array as JSON lines, in blocks that end with `\n`.

    The stream begins with `[`. Several arrays in a row are read as one. Elements that are no
    JSON are dropped and counted, as is a tail that was cut off.
    """
    splitter = _Splitter(key, damage, block_bytes, max_element_bytes)
    for chunk in chunks:
        block = lines(splitter.feed(chunk))
        if block:
            yield block
    block = lines(splitter.finish())
    if block:
        yield block


class _Splitter:
    """The buffer between two chunks; it begins at an element, or where a comma or `]` may be."""

    def __init__(
        self, key: str, damage: DamageLog, block_bytes: int, max_element_bytes: int
    ) -> None:
        self._key = key
        self._damage = damage
        self._block_bytes = block_bytes
        self._max_bytes = max_element_bytes
        self._buffer = b""
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._try_at_bytes = block_bytes
        self._in_array = False
        self._lost_bytes = 0
        """Counts while an element that is too long is passed over."""

    def feed(self, chunk: bytes) -> Sequence[Element]:
        # Looking again only when the buffer has doubled keeps a huge element linear.
        self._parts.append(chunk)
        self._parts_bytes += len(chunk)
        if self._parts_bytes < self._try_at_bytes:
            return ()
        elements = self._split(b"".join(self._parts))
        if len(self._buffer) > self._max_bytes:
            self._lost_bytes += len(self._buffer)
            self._buffer = b""
        self._parts = [self._buffer]
        self._parts_bytes = len(self._buffer)
        self._try_at_bytes = max(self._block_bytes, 2 * self._parts_bytes)
        return elements

    def finish(self) -> Sequence[Element]:
        """The elements of what is left, now that no more comes."""
        data = self._from_element(b"".join(self._parts)).strip(SPACE)
        if self._lost_bytes:
            self._damage.add(DamageReason.LINE_TOO_LONG, self._key, self._lost_bytes + len(data))
            return ()
        is_whole = self._in_array and data.endswith(b"]")
        values = decode(data[:-1]) if is_whole else None
        if values is not None:
            return values
        found = scan(data, in_array=self._in_array)
        cut = last_cut(data) if self._in_array else None
        if cut and (found.losses or found.in_array):
            elements = self._saved(data[: cut[0]])
            found = scan(data[cut[1] :], in_array=True)
            elements += self._kept(found)
        else:
            elements = [*self._kept(found)]
        if self._in_array:
            self._damage.add(DamageReason.TORN_ARRAY, self._key, len(found.rest))
        return elements

    def _split(self, data: bytes) -> Sequence[Element]:
        """The whole elements of `data`; what remains goes to the buffer."""
        self._buffer = b""
        data = self._from_element(data)
        cut = last_cut(data) if self._in_array else None
        values = decode(data[: cut[0]]) if cut else None
        if cut and values is not None:
            self._buffer = data[cut[1] :]
            return values
        found = scan(data, in_array=self._in_array)
        if cut and (found.losses or not found.elements):
            self._buffer = data[cut[1] :]
            return self._saved(data[: cut[0]])
        self._buffer = found.rest
        return self._kept(found)

    def _from_element(self, data: bytes) -> bytes:
        """The data from an element on: past the bracket, a comma, or an element too long."""
        if self._lost_bytes:
            match = CUT.search(data)
            if match is None:
                self._lost_bytes += len(data)
                return b""
            lost_bytes = self._lost_bytes + match.start()
            self._damage.add(DamageReason.LINE_TOO_LONG, self._key, lost_bytes)
            self._lost_bytes = 0
            return data[match.end() :]
        if not self._in_array and data[:1] == b"[":
            self._in_array = True
            return data[1:]
        return data.lstrip(b" \t\r\n,") if self._in_array else data

    def _kept(self, found: Scan) -> list[bytes]:
        """Accept a scan, with what it lost."""
        self._in_array = found.in_array
        for reason, size_bytes in found.losses:
            self._damage.add(reason, self._key, size_bytes)
        return found.elements

    def _saved(self, data: bytes) -> list[Element]:
        """The elements of `data` that are whole, one event spoiling no other."""
        elements: list[Element] = []
        for piece in pieces(data):
            values = decode(piece)
            if values is not None:
                elements += values
                continue
            found = scan(piece, in_array=True)
            elements += self._kept(found)
            if found.rest.strip(SPACE):
                self._damage.add(DamageReason.CORRUPT_ELEMENT, self._key, len(found.rest))
        self._in_array = True
        return elements
