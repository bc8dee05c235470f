"""OSError as our typed errors, with the key and what to do about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from storage.backend import (
    DeniedError,
    InvalidKeyError,
    NotFoundError,
    StorageError,
    UnavailableError,
)
from storage.keys import shown

_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM}
_CROSSED = {errno.ENOTDIR, errno.EISDIR, errno.ELOOP}
# ENXIO: opening a socket. A symbolic link gives ENOTDIR as a folder, ELOOP as a file.
_MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}


def typed(error: OSError, verb: str, key: str) -> StorageError:
    """The typed error for what the system said while we did `verb` to `key`."""
    number = error.errno or 0
    name = errno.errorcode.get(number, str(number))
    what = f"{shown(key)}: cannot {verb}: {os.strerror(number)} ({name})"
    if number in _FULL:
        return UnavailableError(f"{what}; free space on the volume or make it larger")
    if number in _DENIED:
        return DeniedError(f"{what}; give this process's user the right to the storage directory")
    if number == errno.EROFS:
        return DeniedError(f"{what}; mount the volume read-write")
    if number == errno.ENAMETOOLONG:
        return InvalidKeyError(f"{what}; use a shorter key or storage directory")
    if number in _CROSSED:
        return InvalidKeyError(
            f"{what}; a directory can hold no object at or below the name of another, and "
            "symbolic links in it are not followed"
        )
    return UnavailableError(f"{what}; check the volume, then try again")


def is_missing(error: OSError) -> bool:
    """Whether the error means that there is no such object (a symbolic link is none)."""
    return error.errno in _MISSING


@contextmanager
def typed_errors(verb: str, key: str, *, missing: bool = False) -> Iterator[None]:
    """Raise typed errors for the OSErrors of the block.

    Args:
        verb: what is being done, for the message.
        key: to which object.
        missing: whether a path that is not there is `NotFoundError` (else it is a failure).

    """
    try:
        yield
    except OSError as error:
        if missing and is_missing(error):
            raise NotFoundError(f"{shown(key)}: no such object") from error
        raise typed(error, verb, key) from error
