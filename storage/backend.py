"""The contract that every object storage backend keeps, and its typed errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

Body = bytes | Path | Iterable[bytes]
"""What can be put: bytes, a local file (streamed), or an iterator of chunks of unknown length."""

CHUNK_BYTES = 256 * 1024
"""The size of the chunks that reads yield; the last one of a read may be smaller."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One stored object, as `head` and `list` tell of it."""

    key: str
    size_bytes: int
    modified_ms: int
    """Milliseconds since the epoch, by the store's clock."""
    etag: str
    """Changes whenever the content does; opaque."""


@dataclass(frozen=True, slots=True)
class CommonPrefix:
    """A "folder" in a listing with a delimiter; ends with the delimiter."""

    prefix: str


class StorageError(Exception):
    """A storage operation failed. The message says what, which object and what to do."""


class NotFoundError(StorageError):
    """No object has this key."""


class ExistsError(StorageError):
    """A create-only put met an object that was there already."""


class DeniedError(StorageError):
    """The store refused: who we are may not do this."""


class ThrottledError(StorageError):
    """The store asks to slow down; trying again later may work."""


class UnavailableError(StorageError):
    """The store cannot be reached or failed; trying again later may work."""


class IntegrityError(StorageError):
    """What arrived is not what was sent (length or checksum)."""


class InvalidKeyError(StorageError):
    """The key is not one that every backend can hold (empty part, `..`, NUL, too long)."""


class ConfigError(StorageError):
    """The backend's settings are missing or wrong; found at start."""


@runtime_checkable
class Backend(Protocol):
    """Flat object storage: keys to immutable bodies, read and written as streams.

    Every key is relative to the backend's root prefix, which no method can leave.
    Implementations are safe to call from several threads. Retryable failures
    (`ThrottledError`, `UnavailableError`) have been retried by the backend before they
    are raised; callers do not retry again in a tight loop.
    """

    def put(self, key: str, body: Body, *, create_only: bool = False) -> ObjectInfo:
        """Store a whole object; readers see the old one or the new one, never a part.

        Args:
            key: where.
            body: what; a file or an iterator is streamed in bounded memory. An exception
                from the iterator aborts the put and leaves nothing visible.
            create_only: fail with `ExistsError` rather than replace.

        """
        ...

    def get(self, key: str) -> Iterator[bytes]:
        """Yield the object's content in chunks. Raises `NotFoundError` before the first."""
        ...

    def get_range(self, key: str, start: int, length: int | None = None) -> Iterator[bytes]:
        """Yield a part of the content in chunks.

        Args:
            key: which object.
            start: first byte, from 0; a negative one counts from the end (as `-n` for the
                last n bytes, all of it when the object is shorter).
            length: how many bytes; None means to the end. Past the end yields what is
                there, so `start` at or past the end yields nothing.

        """
        ...

    def list(
        self, prefix: str, *, delimiter: str | None = None, start_after: str | None = None
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        """Yield what starts with `prefix`, in the byte order of keys, page by page.

        Args:
            prefix: literal start of the key (`foo` also matches `foo-2`; end with `/`
                to mean a folder).
            delimiter: when given, keys that hold it after the prefix come as one
                `CommonPrefix` each.
            start_after: only what sorts after this key; a `CommonPrefix` is taken by its
                own name, so a page that ended with `foo/` goes on after all of it.

        """
        ...

    def head(self, key: str) -> ObjectInfo:
        """Tell of one object. Raises `NotFoundError`."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""
        ...


def read_all(backend: Backend, key: str, *, max_bytes: int) -> bytes:
    """Read a small object whole.

    Raises `IntegrityError` when it is larger than `max_bytes`, so that a huge object under
    the key of a small one cannot fill the memory.
    """
    parts: list[bytes] = []
    size_bytes = 0
    for chunk in backend.get(key):
        size_bytes += len(chunk)
        if size_bytes > max_bytes:
            raise IntegrityError(f"{key}: larger than the {max_bytes} bytes it may have")
        parts.append(chunk)
    return b"".join(parts)
