"""Finds where the elements of a JSON array begin and end. Pure; `arrays` decides what to do.

Two ways. `last_cut` looks for the text with which an event must begin: no parsing, but a guess.
`scan` follows brackets and strings: sure on whole JSON, some 100 MB/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from historyserver.reading.blocks import is_json
from historyserver.reading.damage import DamageReason

SPACE = b" \t\r\n"
Element = bytes | msgspec.Raw

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

CUT = re.compile(rb',\s*+(?=\{\s*+"(?:eventId|(?:actor|driver)[A-Za-z]*Event)")')
"""The comma before an event."""

_CUT_TRIES = 64
_CUT_SPACE_BYTES = 64
_FLAT_INSIDE = re.compile(rb'(?>[^"{}\[\]]++|"(?>[^"\\]++|\\.)*+")*+', re.DOTALL)
_FLAT_BETWEEN = re.compile(rb'(?>[^"{}\[\],]++|"(?>[^"\\]++|\\.)*+")*+', re.DOTALL)
_values = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(slots=True)
class Scan:
    """What a scan found."""

    in_array: bool
    """Before and after: whether the array is open."""
    elements: list[bytes] = field(default_factory=list)
    rest: bytes = b""
    """From the first element on that is not all there."""
    losses: list[tuple[DamageReason, int]] = field(default_factory=list)


def scan(data: bytes, *, in_array: bool) -> Scan:
    """Take the whole elements off the front of `data`, over the borders of arrays in a row."""
    found = Scan(in_array)
    at = 0
    while at < len(data):
        byte = data[at : at + 1]
        if byte in SPACE or (byte == b"," and found.in_array):
            at += 1
        elif byte == (b"]" if found.in_array else b"["):
            found.in_array = not found.in_array
            at += 1
        elif not found.in_array:
            found.losses.append((DamageReason.TRAILING_BYTES, len(data) - at))
            return found
        else:
            end = _element_end(data, at)
            if end < 0:
                found.rest = data[at:]
                return found
            end = max(end, at + 1)
            element = data[at:end]
            if is_json(element):
                found.elements.append(element)
            else:
                found.losses.append((DamageReason.CORRUPT_ELEMENT, len(element)))
            at = end
    return found


def last_cut(data: bytes) -> tuple[int, int] | None:
    """Where the last event most likely begins: (the comma before it, its brace)."""
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


def pieces(data: bytes) -> Iterator[bytes]:
    """Cut `data` before each event."""
    start = 0
    for match in CUT.finditer(data):
        yield data[start : match.start()]
        start = match.end()
    yield data[start:]


def decode(data: bytes) -> list[msgspec.Raw] | None:
    """The elements, when `data` is nothing but whole ones with commas between; else None."""
    try:
        return _values.decode(b"[%b]" % data)
    except (msgspec.DecodeError, RecursionError):
        return None


def lines(elements: Sequence[Element]) -> bytes:
    """One element a line. A newline between the tokens of an element becomes a space."""
    if not elements:
        return b""
    block = b"\n".join((*elements, b""))
    if block.count(b"\n") != len(elements):
        spaced = [bytes(element).replace(b"\n", b" ") for element in elements]
        block = b"\n".join((*spaced, b""))
    return block


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


def _only_space_after(data: bytes, mark: bytes, stop: int) -> int:
    """Where `mark` stands when nothing but space lies between it and `stop`; else -1."""
    at = data.rfind(mark, max(0, stop - _CUT_SPACE_BYTES), stop)
    return at if at >= 0 and not data[at + 1 : stop].strip(SPACE) else -1
