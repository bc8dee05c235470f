"""One atomic put: a temporary file, made durable, then given its name in one step.

A replacing put renames. A create-only put makes a hard link, which fails when the name exists
and works between machines on NFS too; on file systems without hard links (SMB, some FUSE) a
claim file made with O_EXCL stands in. A killed writer leaves at most a file in the temporary
folder, which no listing shows and a later writer removes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from storage.backend import CHUNK_BYTES, Body, ExistsError, UnavailableError
from storage.keys import shown
from storage.local.errors import typed_errors
from storage.local.folders import opened_folder, sync_folder
from storage.local.names import TEMPORARY_FOLDER

STALE_S = 3600
"""A temporary file that nobody wrote to for this long belongs to a writer that died."""

_CLAIM_WAIT_S = 5.0
_ATTEMPTS = 8
_NO_HARD_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}
_FOLDER_WENT = {errno.ENOENT, errno.ESTALE}


def write_object(
    directory: Path, names: Sequence[str], *, key: str, body: Body, create_only: bool
) -> os.stat_result:
    """Store `body` at the path `names` below `directory`; gives the stat of what is stored."""
    with _temporary_file(directory, key) as (folder_fd, temporary, fd):
        for chunk in _chunks(body):
            with typed_errors("write", key):
                _write_all(fd, chunk)
        with typed_errors("write", key):
            os.fsync(fd)
            stored = os.fstat(fd)
            _publish(directory, names, folder_fd, temporary, key=key, create_only=create_only)
    return stored


def sweep_temporaries(directory: Path, *, now_ns: int) -> int:
    """Remove what dead writers left; gives how many files.

    `now_ns` is a fresh modification time on the same volume: its server's clock decides, not
    ours. What another user owns stays.
    """
    removed = 0
    with (
        suppress(OSError),
        opened_folder(directory, [TEMPORARY_FOLDER]) as folder_fd,
        os.scandir(folder_fd) as entries,
    ):
        for entry in entries:
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if found.st_mtime_ns < now_ns - STALE_S * 10**9:
                    os.unlink(entry.name, dir_fd=folder_fd)
                    removed += 1
    return removed


@contextmanager
def _temporary_file(directory: Path, key: str) -> Iterator[tuple[int, str, int]]:
    """(the temporary folder, the file's name in it, the file open for writing)."""
    temporary = uuid.uuid4().hex
    with ExitStack() as stack:
        with typed_errors("write", key):
            folder = opened_folder(directory, [TEMPORARY_FOLDER], create=True)
            folder_fd = stack.enter_context(folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            fd = os.open(temporary, flags, 0o666, dir_fd=folder_fd)
        try:
            yield folder_fd, temporary, fd
        finally:
            os.close(fd)
            with suppress(OSError):  # Gone when renamed; else the sweep finds it.
                os.unlink(temporary, dir_fd=folder_fd)


def _chunks(body: Body) -> Iterable[bytes]:
    if isinstance(body, bytes):
        return (body,)
    return _file_chunks(body) if isinstance(body, Path) else body


def _file_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _write_all(fd: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _publish(
    directory: Path,
    names: Sequence[str],
    temporary_fd: int,
    temporary: str,
    *,
    key: str,
    create_only: bool,
) -> None:
    """Give the temporary file its name; again when the folder was pruned meanwhile."""
    for attempt in range(_ATTEMPTS):
        try:
            with opened_folder(directory, names[:-1], create=True) as fd:
                if create_only:
                    _create(temporary_fd, temporary, fd, names, key=key)
                else:
                    os.rename(temporary, names[-1], src_dir_fd=temporary_fd, dst_dir_fd=fd)
                sync_folder(fd)
            return
        except FileExistsError as error:
            raise ExistsError(f"{shown(key)}: there is an object already") from error
        except OSError as error:
            if error.errno not in _FOLDER_WENT or attempt == _ATTEMPTS - 1:
                raise


def _create(
    temporary_fd: int, temporary: str, folder_fd: int, names: Sequence[str], *, key: str
) -> None:
    """Name the file unless the name is taken: then FileExistsError."""
    name = names[-1]
    try:
        os.link(
            temporary, name, src_dir_fd=temporary_fd, dst_dir_fd=folder_fd, follow_symlinks=False
        )
    except FileExistsError:
        taken = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        _refuse_if_crossed(taken)
        # NFS: the link was made but its answer got lost, and the second try found it.
        if taken.st_ino != os.stat(temporary, dir_fd=temporary_fd).st_ino:
            raise
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        with _claim(temporary_fd, names, key=key):
            _refuse_if_taken(name, folder_fd)
            os.rename(temporary, name, src_dir_fd=temporary_fd, dst_dir_fd=folder_fd)


def _refuse_if_taken(name: str, folder_fd: int) -> None:
    try:
        taken = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return
    _refuse_if_crossed(taken)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)


def _refuse_if_crossed(taken: os.stat_result) -> None:
    if not stat.S_ISREG(taken.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))


@contextmanager
def _claim(temporary_fd: int, names: Sequence[str], *, key: str) -> Iterator[None]:
    """Be the only one who creates this object; a dead claimer's file is swept when old."""
    name = f"claim-{hashlib.sha256('/'.join(names).encode()).hexdigest()}"
    give_up_s = time.monotonic() + _CLAIM_WAIT_S
    while True:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o666, dir_fd=temporary_fd))
            break
        except FileExistsError as error:
            if time.monotonic() > give_up_s:
                raise UnavailableError(
                    f"{shown(key)}: another writer is creating it; try again later"
                ) from error
            time.sleep(0.02)
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(name, dir_fd=temporary_fd)
