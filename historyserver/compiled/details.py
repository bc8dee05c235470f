"""What is particular to task attempts, in packed chunks beside the table of tasks.

Most of a session's bytes are such details: spans, transitions, paths. Neighbours are so alike
that a chunk of them packs to a quarter, and the table that lists and filters read becomes
small. A row of `tasks` refers to its detail by one number: the chunk and the place in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import zstandard

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import LogInfo, TaskDetail

DETAILS_PER_CHUNK = 64
"""One detail of a scattered page costs unpacking its chunk: 40 microseconds (measured)."""

_INDEX_BITS = 6
_CHUNKS_KEPT = 256
"""Chunks that one answer keeps: those of all partitions at one time of the session."""

_LEVEL = 1
_MAX_BYTES = 1 << 31

_decode = msgspec.msgpack.Decoder(TaskDetail).decode
_decode_chunk = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def detail_number(chunk: int, index: int) -> int:
    """Make the number by which a row refers to a detail."""
    return chunk << _INDEX_BITS | index


class DetailPacker:
    """Packs chunks. Not for several threads."""

    def __init__(self) -> None:
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress

    def pack(self, details: Sequence[bytes]) -> bytes:
        """Pack at most `DETAILS_PER_CHUNK` details, each a `TaskDetail` as msgpack."""
        return self._compress(b"\xdc" + len(details).to_bytes(2, "big") + b"".join(details))


def unpack(chunk: bytes) -> list[msgspec.Raw]:
    """Give the details of a chunk, still msgpack."""
    unpacked = zstandard.ZstdDecompressor().decompress(chunk, max_output_size=_MAX_BYTES)
    return _decode_chunk(unpacked)


class Details:
    """Reads details for one answer, on one thread."""

    def __init__(self, session: CompiledSession) -> None:
        self._connection = session.connection()
        self._chunks: dict[int, list[msgspec.Raw]] = {}

    def get(
        self, number: int, stdout_start: int | None = None, stderr_start: int | None = None
    ) -> TaskDetail:
        """Give the detail of a row, completed by what the row knows of its log offsets."""
        chunk = number >> _INDEX_BITS
        found = self._chunks.get(chunk)
        if found is None:
            found = self._load(chunk)
        detail = _decode(found[number & (DETAILS_PER_CHUNK - 1)])
        if detail.log_info is not None:
            detail.log_info = placed(detail.log_info, stdout_start, stderr_start)
        return detail

    def _load(self, chunk: int) -> list[msgspec.Raw]:
        (body,) = self._connection.execute(
            "SELECT body FROM task_details WHERE chunk = ?", (chunk,)
        ).fetchone()
        if len(self._chunks) >= _CHUNKS_KEPT:
            del self._chunks[next(iter(self._chunks))]
        found = self._chunks[chunk] = unpack(body)
        return found


def placed(info: LogInfo, stdout_start: int | None, stderr_start: int | None) -> LogInfo:
    """Put in the starts that a row has."""
    if stdout_start is None and stderr_start is None:
        return info
    return LogInfo(
        info.stdout_file,
        info.stderr_file,
        info.stdout_start if stdout_start is None else stdout_start,
        info.stdout_end,
        info.stderr_start if stderr_start is None else stderr_start,
        info.stderr_end,
    )
