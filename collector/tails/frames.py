"""Compressed frames: the pieces of a log that a live segment carries, each readable alone.

A frame is one zstd frame of at most `FRAME_RAW_BYTES` of one log file. Small enough that a
reader who wants the end of a log fetches little; large enough that the manifest, which
names every frame, stays small.
"""

from __future__ import annotations

from dataclasses import dataclass

import zstandard

FRAME_RAW_BYTES = 1024 * 1024
"""The most uncompressed bytes in one log frame."""

SMALL_FRAME_BYTES = FRAME_RAW_BYTES // 2
"""A frame with fewer uncompressed bytes than this is worth merging with its neighbours."""

_LEVEL = 3
_SHORTEST_CUT_BYTES = 64 * 1024


class FrameError(Exception):
    """A stored frame does not hold what the manifest says of it."""


@dataclass(frozen=True, slots=True)
class LogFrameData:
    """One frame that is ready to be stored: which bytes of which log incarnation it holds."""

    incarnation: str
    """`LogTails`' name of the file as it was, whatever it is called now."""
    log_start: int
    log_length: int
    data: bytes


def compress(raw: bytes) -> bytes:
    """One zstd frame with its content size and checksum, so that damage is noticed."""
    data = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(raw)
    # What zstandard returns keeps the memory of the worst case, as much as went in: copy it.
    return bytes(memoryview(data))


def decompress(data: bytes, *, raw_bytes: int) -> bytes:
    """The content of one frame. Raises `FrameError` unless it is exactly `raw_bytes` long."""
    try:
        raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=raw_bytes + 1)
    except zstandard.ZstdError as error:
        raise FrameError(f"damaged frame of {len(data)} bytes: {error}") from error
    if len(raw) != raw_bytes:
        raise FrameError(f"frame holds {len(raw)} bytes, expected {raw_bytes}")
    return raw


def cut_at_line_end(raw: bytes, *, more_follows: bool) -> bytes:
    """Shorten a full read to its last line end, so that few lines span two frames.

    A line that is longer than a frame, or binary data without line ends, is cut anywhere:
    a frame boundary means nothing to the reader. The end of the file is never held back,
    as a progress bar may never end its line.
    """
    if not more_follows:
        return raw
    end = raw.rfind(b"\n") + 1
    return raw[:end] if end >= min(_SHORTEST_CUT_BYTES, len(raw)) else raw
