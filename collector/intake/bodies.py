"""Reads POST bodies in bounded memory.

Ray's bodies are about 1 MB. Small ones are kept in memory; larger ones go to a temporary file
that is mapped, so that they cost page cache and not heap; beyond the limit the start goes to
quarantine and the rest is read and thrown away, since a refusal would make Ray send it again
for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from aiohttp import StreamReader, web

from collector.intake.envelope import BodyError, Reason
from collector.intake.quarantine import Quarantine

IN_MEMORY_BYTES = 8 * 1024 * 1024
START_BYTES = 64 * 1024
"""No more than the server buffers of each connection anyway."""
MAX_BODY_BYTES = 256 * 1024 * 1024
READ_TIMEOUT_S = 30.0


class BodyReader:
    """Reads the body of one request after the other; safe for several at a time.

    Args:
        spool_dir: for temporary files of large bodies; emptied at start.
        quarantine: takes what is too large.
        max_bytes: the largest body whose events are looked at.

    """

    def __init__(
        self, spool_dir: Path, quarantine: Quarantine, *, max_bytes: int = MAX_BODY_BYTES
    ) -> None:
        self._spool_dir = spool_dir
        self._quarantine = quarantine
        self._max_bytes = max_bytes
        spool_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in spool_dir.iterdir():
            left.unlink()

    async def begin(self, request: web.BaseRequest) -> bytearray:
        """Read a small body, or the start of a large one. Raises as `finish` does.

        It costs next to no memory, so that any number of senders may be slow with it.
        """
        async with asyncio.timeout(READ_TIMEOUT_S):
            return await _read_up_to(request.content, bytearray(), START_BYTES)

    async def finish(self, request: web.BaseRequest, start: bytearray) -> bytes | mmap.mmap:
        """Return the whole body that began with `start`; close it when it is a map.

        Raises `BodyError` when it was taken to quarantine as a whole, `TimeoutError` when
        the sender is too slow, and `ConnectionError` when it went away.
        """
        async with asyncio.timeout(READ_TIMEOUT_S):
            head = await _read_up_to(request.content, start, IN_MEMORY_BYTES)
            encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
            if encoding != "identity":
                return await self._decompressed(request.content, bytes(head), encoding)
            if len(head) <= IN_MEMORY_BYTES:
                return bytes(head)
            return await self._spool(request.content, head)

    async def _decompressed(self, content: StreamReader, packed: bytes, encoding: str) -> bytes:
        """Ray sends nothing compressed; who does may send what unpacks to a small body."""
        while chunk := await content.readany():
            del chunk
        body = _unpacked(packed) if encoding in {"gzip", "deflate"} else None
        if body is None:
            self._quarantine.add(Reason.BODY_UNDECODABLE, packed, len(packed))
            raise BodyError(Reason.BODY_UNDECODABLE)
        return body

    async def _spool(self, content: StreamReader, head: bytearray) -> mmap.mmap:
        with _temporary_file(self._spool_dir) as (file, path):
            size_bytes = len(head)
            file.write(head)
            while chunk := await content.readany():
                size_bytes += len(chunk)
                if size_bytes <= self._max_bytes:
                    file.write(chunk)
            file.flush()
            if size_bytes <= self._max_bytes:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            file.truncate(min(self._max_bytes, self._quarantine.room_bytes()))
            self._quarantine.add_file(Reason.BODY_TOO_LARGE, path)
            raise BodyError(Reason.BODY_TOO_LARGE)


def _unpacked(packed: bytes) -> bytes | None:
    """The content of a gzip or zlib stream; None when it is none, or is too large."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        body = unpacker.decompress(packed, IN_MEMORY_BYTES)
    except zlib.error:
        return None
    return body if unpacker.eof else None


@contextlib.contextmanager
def _temporary_file(directory: Path) -> Iterator[tuple[BinaryIO, Path]]:
    handle, name = tempfile.mkstemp(dir=directory)
    path = Path(name)
    try:
        with os.fdopen(handle, "wb+") as file:
            yield file, path
    finally:
        path.unlink(missing_ok=True)


async def _read_up_to(content: StreamReader, head: bytearray, limit_bytes: int) -> bytearray:
    """Read on until the end, or until more than the limit is there."""
    while len(head) <= limit_bytes:
        chunk = await content.readany()
        if not chunk:
            break
        head += chunk
    return head
