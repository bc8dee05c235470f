"""A JSON array of events, read as a stream, to JSON lines.

KubeRay's collectors before v1.7 write each event file as one array (generations A, B and C-),
hundreds of megabytes for a large session, so it is never held whole. The fast way: cut the
buffer where a new event must begin and let msgspec check and split what is before the cut (1 GB/s
measured). A cut is right exactly when what is before it is valid, so a wrong guess is always
noticed. Then, and where no cut is found, a scanner follows brackets and strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from historyserver.reading.blocks import BLOCK_BYTES, MAX_LINE_BYTES, is_json
from historyserver.reading.damage import DamageLog, DamageReason

_FIRST_KEYS = (
    b'"eventId"',
    b'"actorDefinitionEvent"',
    b'"actorLifecycleEvent"',
    b'"actorTaskDefinitionEvent"',
    b'"driverJobDefinitionEvent"',
    b'"driverJobLifecycleEvent"',
)
"""How an event of an array begins: v1.6 sorts the keys, so with the payload or the id. A quote
inside a JSON string is escaped, so none of these can stand within a string."""

_CUT = re.compile(rb',\s*+(?=\{\s*+"(?:eventId|(?:actor|driver)[A-Za-z]*Event)")')
_CUT_TRIES = 64
_CUT_SPACE_BYTES = 64
_SPACE = b" \t\r\n"
_FLAT_INSIDE = re.compile(rb'(?>[^"{}\[\]]++|"(?>[^"\\]++|\\.)*+")*+', re.DOTALL)
_FLAT_BETWEEN = re.compile(rb'(?>[^"{}\[\],]++|"(?>[^"\\]++|\\.)*+")*+', re.DOTALL)
_values = msgspec.json.Decoder(list[msgspec.Raw])


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
        block = splitter.feed(chunk)
        if block:
            yield block
    block = splitter.finish()
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

    def feed(self, chunk: bytes) -> bytes:
        # Scanning again only when the buffer has doubled keeps a huge element linear.
        self._parts.append(chunk)
        self._parts_bytes += len(chunk)
        if self._parts_bytes < self._try_at_bytes:
            return b""
        block = self._split(b"".join(self._parts))
        if len(self._buffer) > self._max_bytes:
            self._lost_bytes += len(self._buffer)
            self._buffer = b""
        self._parts = [self._buffer]
        self._parts_bytes = len(self._buffer)
        self._try_at_bytes = max(self._block_bytes, 2 * self._parts_bytes)
        return block

    def finish(self) -> bytes:
        data = self._opened(self._resumed(b"".join(self._parts).strip(_SPACE)))
        if self._lost_bytes:
            self._damage.add(DamageReason.LINE_TOO_LONG, self._key, self._lost_bytes + len(data))
            return b""
        if self._in_array and data[-1:] == b"]":
            values = _decode(data[:-1])
            if values is not None:
                return _lines(values)
        elements, rest = self._scan(data)
        if self._in_array:
            more, torn = self._salvage(rest)
            self._damage.add(DamageReason.TORN_ARRAY, self._key, torn)
            return _lines([*elements, *more])
        return _lines(elements)

    def _split(self, data: bytes) -> bytes:
        data = self._opened(self._resumed(data))
        if self._lost_bytes:
            return b""
        cut = _last_cut(data) if self._in_array else None
        if cut is None:
            elements, self._buffer = self._scan(data)
            return _lines(elements)
        self._buffer = data[cut[1] :]
        return _lines(self._elements(data[: cut[0]]))

    def _opened(self, data: bytes) -> bytes:
        """The data from the first element on."""
        if not self._in_array and data[:1] == b"[":
            self._in_array = True
            return data[1:]
        return data.lstrip(b" \t\r\n,") if self._in_array else data

    def _resumed(self, data: bytes) -> bytes:
        """After an element that was too long: go on where the next event begins."""
        if not self._lost_bytes:
            return data
        match = _CUT.search(data)
        if match is None:
            self._lost_bytes += len(data)
            self._buffer = b""
            return b""
        self._damage.add(DamageReason.LINE_TOO_LONG, self._key, self._lost_bytes + match.start())
        self._lost_bytes = 0
        return data[match.end() :]

    def _elements(self, data: bytes) -> Sequence[bytes | msgspec.Raw]:
        """The elements of `data`, which holds whole ones only; those that are broken counted."""
        values = _decode(data)
        if values is not None:
            return values
        elements: list[bytes | msgspec.Raw] = []
        start = 0
        for end in [*(match.start() for match in _CUT.finditer(data)), len(data)]:
            piece = data[start:end]
            start = end + 1
            values = _decode(piece)
            if values is not None:
                elements += values
                continue
            found, rest = self._scan(piece)
            elements += found
            if rest.strip(_SPACE):
                self._damage.add(DamageReason.CORRUPT_ELEMENT, self._key, len(rest))
            self._in_array = True
        return elements

    def _salvage(self, data: bytes) -> tuple[Sequence[bytes | msgspec.Raw], int]:
        """The whole elements in a tail that has no end, and the size of what is torn."""
        cut = _last_cut(data)
        if cut is None:
            return [], len(data)
        more, rest = self._scan(data[cut[1] :])
        return [*self._elements(data[: cut[0]]), *more], len(rest)

    def _scan(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Whole elements found by following brackets and strings, and what is left over."""
        elements: list[bytes] = []
        at = 0
        while at < len(data):
            byte = data[at : at + 1]
            if byte in b" \t\r\n" or (byte == b"," and self._in_array):
                at += 1
            elif not self._in_array:
                if byte != b"[":
                    self._damage.add(DamageReason.TRAILING_BYTES, self._key, len(data) - at)
                    return elements, b""
                self._in_array = True
                at += 1
            elif byte == b"]":
                self._in_array = False
                at += 1
            else:
                end = _element_end(data, at)
                if end < 0:
                    return elements, data[at:]
                end = max(end, at + 1)
                element = data[at:end]
                if is_json(element):
                    elements.append(element)
                else:
                    self._damage.add(DamageReason.CORRUPT_ELEMENT, self._key, len(element))
                at = end
        return elements, b""


def _last_cut(data: bytes) -> tuple[int, int] | None:
    """Where the last event surely begins: (the comma before it, its brace)."""
    for text in _FIRST_KEYS:
        at = len(data)
        for _ in range(_CUT_TRIES):
            at = data.rfind(text, 0, at)
            if at < 0:
                break
            brace = _only_space_after(data, b"{", at)
            comma = _only_space_after(data, b",", brace) if brace >= 0 else -1
            if comma >= 0:
                return comma, brace
    return None


def _only_space_after(data: bytes, mark: bytes, stop: int) -> int:
    """Where `mark` stands when nothing but space lies between it and `stop`; else -1."""
    at = data.rfind(mark, max(0, stop - _CUT_SPACE_BYTES), stop)
    return at if at >= 0 and not data[at + 1 : stop].strip(_SPACE) else -1


def _element_end(data: bytes, start: int) -> int:
    """Where the element that begins at `start` ends, or -1 when it is not all there."""
    at, depth = start, 0
    while True:
        match = (_FLAT_INSIDE if depth else _FLAT_BETWEEN).match(data, at)
        at = match.end() if match else at
        byte = data[at : at + 1]
        if byte in (b"", b'"'):
            return -1
        if byte in b"{[":
            depth += 1
        elif depth == 0:
            return at
        elif byte in b"}]":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1


def _decode(data: bytes) -> list[msgspec.Raw] | None:
    """The elements, when `data` is nothing but whole ones with commas between; else None."""
    try:
        return _values.decode(b"[%b]" % data)
    except (msgspec.DecodeError, RecursionError):
        return None


def _lines(elements: Sequence[bytes | msgspec.Raw]) -> bytes:
    """One element a line. A newline between the tokens of an element becomes a space."""
    if not elements:
        return b""
    block = b"\n".join((*elements, b""))
    if block.count(b"\n") != len(elements):
        spaced = [bytes(element).replace(b"\n", b" ") for element in elements]
        block = b"\n".join((*spaced, b""))
    return block
