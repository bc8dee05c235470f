"""Compiled sessions that storage holds are not trusted."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import zstandard

from historyserver.compiling.stored import Fetched, fetch
from storage.local import LocalBackend


def test_a_small_object_that_unpacks_to_gigabytes_fills_neither_memory_nor_disk(
    tmp_path: Path,
) -> None:
    """The bound is checked every kilobyte of what is stored."""
    (tmp_path / "bucket").mkdir()
    backend = LocalBackend(tmp_path / "bucket")
    compressor = zstandard.ZstdCompressor().compressobj()
    zeros = bytes(1 << 20)
    backend.put(
        "bomb", b"".join(compressor.compress(zeros) for _ in range(512)) + compressor.flush()
    )
    tracemalloc.start()
    try:
        found = fetch(backend, "bomb", tmp_path / "file", max_bytes=1 << 20)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found is Fetched.DAMAGED
    assert peak_bytes < 100 << 20
