"""The backend of a local directory or mounted volume."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.backend import (
    CHUNK_BYTES,
    Body,
    CommonPrefix,
    ConfigError,
    ExistsError,
    InvalidKeyError,
    NotFoundError,
    ObjectInfo,
    UnavailableError,
)
from storage.keys import MAX_KEY_BYTES, check_key, check_prefix, check_root, shown
from storage.local.errors import is_missing, typed_errors
from storage.local.folders import open_file, opened_folder, prune_folders, sync_folder
from storage.local.listing import Listing, object_info
from storage.local.names import names_of_key
from storage.local.writing import STALE_S, sweep_temporaries, write_object

Names = list[str]
"""A path below the directory, name by name."""


class LocalBackend:
    """Objects as files below a directory that must exist. See `storage.backend.Backend`.

    Several processes and machines may write to it at once (a shared volume). What differs
    from object stores: an object cannot lie below the name of another (`a` and `a/b`); the
    second put of such a pair is refused with `InvalidKeyError`. Our layout has no such pair.
    """

    def __init__(self, directory: Path, *, root: str = "") -> None:
        """Use `directory`, with `root` as the prefix of all keys.

        Raises `ConfigError`: a directory that is not there may be a volume that is not
        mounted, so it is never created.
        """
        self._directory = Path(directory).absolute()
        if not self._directory.is_dir():
            raise ConfigError(
                f"{self._directory}: no such directory; create it, or mount the volume there"
            )
        try:
            self._root = check_root(root)
        except InvalidKeyError as error:
            raise ConfigError(f"the storage root dir is not usable: {error}") from error
        self._root_names = names_of_key(self._root) if self._root else []
        self._swept_ns = 0
        mount = self._directory.resolve()
        self._mount = mount if mount.is_mount() else None

    def __repr__(self) -> str:
        """Where it is, for logs."""
        return f"LocalBackend({str(self._directory)!r}, root={self._root!r})"

    def put(self, key: str, body: Body, *, create_only: bool = False) -> ObjectInfo:
        """Store a whole object, atomically and durably."""
        names = self._names(key)
        self._check_mount(key)
        if create_only and self._is_there(names, key):
            raise ExistsError(f"{shown(key)}: there is an object already")
        stored = write_object(self._directory, names, key=key, body=body, create_only=create_only)
        if stored.st_mtime_ns - self._swept_ns > STALE_S * 10**9:
            self._swept_ns = stored.st_mtime_ns
            sweep_temporaries(self._directory, now_ns=stored.st_mtime_ns)
        return object_info(key, stored)

    def get(self, key: str) -> Iterator[bytes]:
        """Yield the content; an object replaced meanwhile is read on as it was."""
        return self.get_range(key, 0)

    def get_range(self, key: str, start: int, length: int | None = None) -> Iterator[bytes]:
        """Yield a part of the content."""
        with self._opened(self._names(key), key) as (fd, size_bytes):
            offset = max(0, size_bytes + start) if start < 0 else start
            end = size_bytes if length is None else min(size_bytes, offset + max(0, length))
            while offset < end:
                with typed_errors("read", key):
                    chunk = os.pread(fd, min(CHUNK_BYTES, end - offset), offset)
                if not chunk:
                    return
                offset += len(chunk)
                yield chunk

    def head(self, key: str) -> ObjectInfo:
        """Tell of one object."""
        names = self._names(key)
        with (
            typed_errors("read", key, missing=True),
            opened_folder(self._directory, names[:-1]) as fd,
        ):
            found = os.stat(names[-1], dir_fd=fd, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise NotFoundError(f"{shown(key)}: no such object")
        return object_info(key, found)

    def list(
        self, prefix: str, *, delimiter: str | None = None, start_after: str | None = None
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        """Yield what starts with `prefix`, in the byte order of keys."""
        return Listing(
            directory=self._directory,
            root=self._root_names,
            prefix=check_prefix(prefix),
            delimiter=delimiter or None,
            start_after=start_after or None,
        ).items()

    def delete(self, key: str) -> None:
        """Remove an object, and the folders that it leaves empty."""
        names = self._names(key)
        with typed_errors("delete", key):
            try:
                with opened_folder(self._directory, names[:-1]) as fd:
                    found = os.stat(names[-1], dir_fd=fd, follow_symlinks=False)
                    if not stat.S_ISREG(found.st_mode):
                        return
                    os.unlink(names[-1], dir_fd=fd)
                    sync_folder(fd)
            except OSError as error:
                if is_missing(error):
                    return
                raise
        prune_folders(self._directory, names[:-1])

    def _check_mount(self, key: str) -> None:
        """A volume that was unmounted leaves an empty directory: what is put there is lost."""
        if self._mount is not None and not self._mount.is_mount():
            raise UnavailableError(
                f"{shown(key)}: cannot write: the volume at {self._directory} is not mounted any "
                "more; mount it again"
            )

    def _names(self, key: str) -> Names:
        check_key(key)
        size_bytes = len(key.encode()) + (len(self._root.encode()) + 1 if self._root else 0)
        if size_bytes > MAX_KEY_BYTES:
            raise InvalidKeyError(
                f"{shown(key)!r}: with the root prefix it has {size_bytes} bytes, more than "
                f"{MAX_KEY_BYTES}; use a shorter storage root dir"
            )
        return [*self._root_names, *names_of_key(key)]

    def _is_there(self, names: Names, key: str) -> bool:
        with typed_errors("read", key):
            try:
                with opened_folder(self._directory, names[:-1]) as fd:
                    found = os.stat(names[-1], dir_fd=fd, follow_symlinks=False)
            except OSError as error:
                if is_missing(error):
                    return False
                raise
        return stat.S_ISREG(found.st_mode)

    @contextmanager
    def _opened(self, names: Names, key: str) -> Iterator[tuple[int, int]]:
        """The object's file, open for reading, and its size."""
        with (
            typed_errors("read", key, missing=True),
            opened_folder(self._directory, names[:-1]) as folder_fd,
        ):
            fd = open_file(folder_fd, names[-1])
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise NotFoundError(f"{shown(key)}: no such object")
            yield fd, found.st_size
        finally:
            os.close(fd)
