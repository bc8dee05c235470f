"""Plain files are cut into parts that together give every line once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyserver.compiling import units
from historyserver.compiling.units import Unit, blocks, cut
from historyserver.reading.damage import DamageLog
from historyserver.reading.source import EventFile
from storage.backend import ObjectInfo
from storage.local.backend import LocalBackend


class Chunked:
    """A backend of one object that yields it in small chunks."""

    def __init__(self, body: bytes, chunk_bytes: int) -> None:
        self.body = body
        self.chunk_bytes = chunk_bytes

    def get_range(self, key: str, start: int, length: int | None = None):  # type: ignore[no-untyped-def]
        """As a backend does."""
        stop = len(self.body) if length is None else start + length
        for position in range(start, min(stop, len(self.body)), self.chunk_bytes):
            yield self.body[position : min(position + self.chunk_bytes, stop)]


@settings(max_examples=300, deadline=None)
@given(
    lines=st.lists(st.integers(0, 12), max_size=12),
    unit_bytes=st.integers(1, 20),
    chunk_bytes=st.integers(1, 17),
    has_last_newline=st.booleans(),
)
def test_every_line_is_in_exactly_one_part(
    lines: list[int], unit_bytes: int, chunk_bytes: int, has_last_newline: bool
) -> None:
    """Wherever the cuts and the chunks fall."""
    texts = [f"{number:02}".encode() + b"x" * size for number, size in enumerate(lines)]
    body = b"".join(b'"' + text + b'"\n' for text in texts)
    if not has_last_newline:
        body = body.removesuffix(b"\n")
    backend = Chunked(body, chunk_bytes)
    file = EventFile("k", "", len(body), "", "plain")
    found: list[bytes] = []
    for start in range(0, len(body), unit_bytes):
        unit = Unit(file, start, min(start + unit_bytes, len(body)))
        for block in blocks(backend, unit, DamageLog()):  # type: ignore[arg-type]
            assert block.endswith(b"\n")
            found += block.split()
    assert found == [b'"' + text + b'"' for text in texts]


@pytest.mark.parametrize(
    ("body", "parts"),
    [(b'{"a":1}\n' * 100, 8), (b'[{"a":1}]' * 100, 1), (b"\x1f\x8b" + b"x" * 800, 1), (b"{}\n", 1)],
)
def test_only_large_plain_lines_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes, parts: int
) -> None:
    """Arrays, gzip and small files stay whole."""
    monkeypatch.setattr(units, "UNIT_BYTES", 100)
    backend = LocalBackend(tmp_path)
    info: ObjectInfo = backend.put("k", body)
    found = cut(backend, [EventFile("k", "", info.size_bytes, "", "plain")])
    assert len(found) == parts
