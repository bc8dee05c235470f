"""Zstd frames of live segments. A frame of over `MAX_FRAME_BYTES` unpacked is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import zstandard

from storage.backend import Backend, NotFoundError

MAX_FRAME_BYTES = 128 * 1024 * 1024
"""Bound on the unpacked size; only a line over 1 MiB makes a frame larger than that."""

_GAP_BYTES = 64 * 1024
_SPAN_BYTES = 8 * 1024 * 1024
_BITE_BYTES = 4096


class SourceChangedError(NotFoundError):
    """An object of a running session is gone since the session was located.

    The collector deletes a live segment once its content is in final objects, after it has
    stored a manifest without it. Locating the session again gives the new places.
    """


class FrameError(Exception):
    """The bytes are no zstd frame of a permitted size."""


def unpack_frame(packed: bytes) -> bytes:
    """Unpack one whole frame, in memory bounded by `MAX_FRAME_BYTES`."""
    parts: list[bytes] = []
    size_bytes = 0
    try:
        declared_bytes = zstandard.frame_content_size(packed)
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=False) as reader:
            while size_bytes <= MAX_FRAME_BYTES and (part := reader.read(1024 * 1024)):
                size_bytes += len(part)
                parts.append(part)
    except zstandard.ZstdError as error:
        raise FrameError(str(error)) from error
    if size_bytes > MAX_FRAME_BYTES:
        raise FrameError(f"a frame unpacks to more than {MAX_FRAME_BYTES} bytes")
    if declared_bytes not in {-1, size_bytes}:
        raise FrameError(f"a frame has {size_bytes} of its {declared_bytes} bytes")
    return b"".join(parts)


def read_frames(backend: Backend, key: str, frames: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    """Yield the packed bytes of frames, given as (start, length), in their order.

    Frames that lie close together come with one ranged read, as each read of an object store
    costs tens of milliseconds.
    """
    for span in _spans(sorted(frames)):
        start = span[0][0]
        stop = max(at + length for at, length in span)
        data = read_range(backend, key, start, stop - start)
        for at, length in span:
            yield data[at - start : at - start + length]


def _spans(frames: Sequence[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    span: list[tuple[int, int]] = []
    for start, length in frames:
        if span:
            near = start - sum(span[-1]) <= _GAP_BYTES
            if not near or start + length - span[0][0] > _SPAN_BYTES:
                yield span
                span = []
        span.append((start, length))
    if span:
        yield span


def read_range(backend: Backend, key: str, start: int, length: int) -> bytes:
    """Read a part of a live segment; `SourceChangedError` when the segment is gone."""
    try:
        return b"".join(backend.get_range(key, start, length))
    except NotFoundError as error:
        raise SourceChangedError(f"{key}: superseded while it was read") from error


def split_frames(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Unpack the frames of a whole segment one by one; `FrameError` at the first broken one."""
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    out: list[bytes] = []
    size_bytes = 0
    for data in _bites(chunks):
        while data:
            try:
                out.append(unpacker.decompress(data))
            except zstandard.ZstdError as error:
                raise FrameError(str(error)) from error
            size_bytes += len(out[-1])
            if size_bytes > MAX_FRAME_BYTES:
                raise FrameError(f"a frame unpacks to more than {MAX_FRAME_BYTES} bytes")
            if not unpacker.eof:
                break
            yield b"".join(out)
            out, size_bytes, data = [], 0, unpacker.unused_data
            unpacker = zstandard.ZstdDecompressor().decompressobj()
    if out:
        raise FrameError("the last frame has no end")


def _bites(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Small pieces: one unpacks to a bounded size, as a frame's true size is not known before."""
    for chunk in chunks:
        for start in range(0, len(chunk), _BITE_BYTES):
            yield chunk[start : start + _BITE_BYTES]
