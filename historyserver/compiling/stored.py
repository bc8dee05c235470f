"""Compiled sessions in storage: fetched by replicas, so that each is made only once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import zstandard

from storage.backend import Backend, ExistsError, NotFoundError

log = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 20
_BITE_BYTES = 1024
"""So much is unpacked at once: a hostile kilobyte of zstd makes megabytes, not gigabytes."""
_LEVEL = 3


class Fetched(Enum):
    """What came of fetching."""

    WHOLE = "whole"
    ABSENT = "absent"
    DAMAGED = "damaged"
    """Cut or corrupt (zstd's own checksum tells), or far too large."""


def fetch(backend: Backend, key: str, path: Path, *, max_bytes: int) -> Fetched:
    """Fetch a compiled session into `path`. Raises `StorageError` when storage fails."""
    size_bytes = 0
    unpacked = zstandard.ZstdDecompressor().decompressobj()
    try:
        with path.open("wb") as file:
            for bite in _bites(backend.get(key)):
                part = unpacked.decompress(bite)
                size_bytes += len(part)
                if size_bytes > max_bytes:
                    fields = {"key": key, "max_bytes": max_bytes}
                    log.warning("a stored file unpacks to too much, not used", extra=fields)
                    return Fetched.DAMAGED
                file.write(part)
    except NotFoundError:
        return Fetched.ABSENT
    except zstandard.ZstdError as error:
        fields = {"key": key, "error": str(error)}
        log.warning("a stored file is damaged, it is made anew", extra=fields)
        return Fetched.DAMAGED
    if not unpacked.eof:
        log.warning("a stored file is cut short, it is made anew", extra={"key": key})
        return Fetched.DAMAGED
    return Fetched.WHOLE


def _bites(chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        view = memoryview(chunk)
        for start in range(0, len(chunk), _BITE_BYTES):
            yield bytes(view[start : start + _BITE_BYTES])


def store(backend: Backend, key: str, path: Path, *, replace: bool = False) -> bool:
    """Store a compiled session, so that every replica has the same one.

    Returns False when another replica was first; theirs stays, for it is the same. With
    `replace` what is there is known to be damaged.
    """
    try:
        backend.put(key, _packed(path), create_only=not replace)
    except ExistsError:
        return False
    return True


def _packed(path: Path) -> Iterator[bytes]:
    packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compressobj(
        size=path.stat().st_size
    )
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            if part := packer.compress(chunk):
                yield part
    yield packer.flush()
