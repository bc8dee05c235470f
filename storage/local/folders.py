"""Directories as file descriptors, opened name by name without following symbolic links.

Whoever can write to a shared volume could otherwise plant a link to a file outside of it and
have the history server show it. Checking paths first and opening them later would leave a gap
in time, so each name is opened relative to the one before.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: a planted FIFO must not block the open; it has no effect on regular files.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CANNOT_SYNC = {errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EACCES}
FOLDER_MODE = 0o777
"""Before the umask: several writers with a common group share a volume."""


@contextmanager
def opened_folder(
    directory: Path, names: Sequence[str] = (), *, create: bool = False
) -> Iterator[int]:
    """Open the folder `names` below `directory` (itself trusted, may be a link).

    Args:
        directory: where the backend's data is; never created.
        names: the way from there.
        create: make folders that are missing, durably.

    """
    try:
        fd = os.open(directory, _FOLDER_FLAGS)
    except (FileNotFoundError, NotADirectoryError) as error:
        # Not "no such object": the volume is gone.
        raise OSError(errno.ENODEV, f"{directory} is not there") from error
    try:
        for name in names:
            inner = _opened_child(fd, name, create=create)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def open_child(folder_fd: int, name: str) -> int:
    """Open a folder inside another; the caller closes it."""
    return os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder_fd)


def open_below(folder_fd: int, names: Sequence[str]) -> int:
    """Open a folder some levels below another; the caller closes it."""
    fd = os.dup(folder_fd)
    for name in names:
        try:
            inner = open_child(fd, name)
        finally:
            os.close(fd)
        fd = inner
    return fd


def stat_below(folder_fd: int, names: Sequence[str]) -> os.stat_result:
    """What is there, some levels below a folder; a symbolic link is told of as such."""
    if len(names) == 1:
        return os.stat(names[0], dir_fd=folder_fd, follow_symlinks=False)
    parent_fd = open_below(folder_fd, names[:-1])
    try:
        return os.stat(names[-1], dir_fd=parent_fd, follow_symlinks=False)
    finally:
        os.close(parent_fd)


def open_file(folder_fd: int, name: str) -> int:
    """Open a file for reading; the caller closes it, and checks what it is."""
    return os.open(name, _FILE_FLAGS, dir_fd=folder_fd)


def sync_folder(folder_fd: int) -> None:
    """Make names in the folder durable. File systems that cannot (SMB, some FUSE) are let be."""
    try:
        os.fsync(folder_fd)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def prune_folders(directory: Path, names: Sequence[str]) -> None:
    """Remove the folder `names` if it is empty, then the one above it, and so on.

    Keeps listings short. A writer that just opened a folder which this removes gets ENOENT
    and makes it anew.
    """
    for depth in range(len(names), 0, -1):
        try:
            with opened_folder(directory, names[: depth - 1]) as fd:
                os.rmdir(names[depth - 1], dir_fd=fd)
        except OSError:
            return


def _opened_child(folder_fd: int, name: str, *, create: bool) -> int:
    try:
        return open_child(folder_fd, name)
    except FileNotFoundError:
        if not create:
            raise
    try:
        os.mkdir(name, FOLDER_MODE, dir_fd=folder_fd)
        sync_folder(folder_fd)
    except FileExistsError:
        pass  # Another writer was faster.
    return open_child(folder_fd, name)
