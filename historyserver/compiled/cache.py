"""Compiled files on the local disk: found again, checked, and removed when space is needed.

Several server processes share one folder. A file's name carries its size and checksum, so a cut
or damaged one is noticed before it is used; it gets that name by a rename, so a half-written
one is never seen; who has it open holds a shared lock on it, so nobody removes it under them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import shutil
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from historyserver.compiled.opener import BrokenFileError, CompiledSession, open_compiled

log = logging.getLogger(__name__)

_NAME = re.compile(r"(?P<key>[0-9a-f]+-\d+-[^.]+)\.(?P<size>\d+)-(?P<sum>[0-9a-f]{8})\.sqlite\Z")
_CHUNK_BYTES = 1 << 20
_LEFT = re.compile(r"\.{1,2}(?P<key>[0-9a-f]+-\d+-[^.]+)\..*")
"""Names of what is unfinished: the file, and the folder beside it that a compile works in."""


def cache_key(owner: str, schema_version: int, fingerprint: str) -> str:
    """Name what is cached: whose session, which schema, which state of its source."""
    digest = hashlib.blake2b(owner.encode(), digest_size=10).hexdigest()
    return f"{digest}-{schema_version}-{fingerprint}"


class CompiledCache:
    """A folder of compiled files that several processes share."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = folder
        self._locks = folder / "locks"
        self._max_bytes = max_bytes
        self._locks.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def making(self, key: str) -> Iterator[Path]:
        """Hold the right to make a file: one process and thread at a time has it per key.

        Yields where to write the unfinished file. What is left of it, or of earlier ones that
        were killed, is removed.
        """
        with self._lock(key).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                yield self._folder / f".{key}.{os.getpid()}.unfinished"
            finally:
                self._remove_left(key)

    def sweep(self) -> int:
        """Remove what makers left that were killed; returns how many keys that were.

        Who makes a file holds its lock, which the kernel releases at its end: what nobody holds
        is nobody's.
        """
        swept = 0
        for key in {match["key"] for path in self._entries() if (match := _LEFT.match(path.name))}:
            with self._lock(key).open("wb") as lock:
                if _try_lock(lock.fileno()):
                    self._remove_left(key)
                    swept += 1
        return swept

    def _remove_left(self, key: str) -> None:
        """Remove what is unfinished of a key whose lock is held."""
        for path in self._entries():
            match = _LEFT.match(path.name)
            if match is None or match["key"] != key:
                continue
            log.info("removing what an unfinished compile left", extra={"left": path.name})
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _lock(self, key: str) -> Path:
        return self._locks / f"{key}.lock"

    def _entries(self) -> list[Path]:
        try:
            return list(self._folder.iterdir())
        except FileNotFoundError:  # a cleaner of temporary files was here
            return []

    @contextlib.contextmanager
    def slot(self, slots: int) -> Iterator[None]:
        """Wait for one of a few slots that all processes share, for work that is heavy."""
        files = [(self._locks / f"slot-{number}.lock").open("wb") for number in range(slots)]
        with contextlib.ExitStack() as stack:
            for file in files:
                stack.enter_context(file)
            while not any(_try_lock(file.fileno()) for file in files):
                time.sleep(0.05)
            yield

    def open(self, key: str) -> CompiledSession | None:
        """Open a cached file; one that is damaged is removed and counts as not there."""
        for path in sorted(self._folder.glob(f"{key}.*.sqlite")):
            try:
                compiled = self._open(path)
            except FileNotFoundError:
                continue
            except BrokenFileError as error:
                log.warning(
                    "a cached file is damaged, it is made anew", extra={"error": str(error)}
                )
                path.unlink(missing_ok=True)
                continue
            with contextlib.suppress(OSError):
                os.utime(path)
            return compiled
        return None

    def add(self, key: str, unfinished: Path) -> CompiledSession:
        """Take over a finished file and open it. Raises `BrokenFileError`."""
        compiled = open_compiled(unfinished)
        compiled.close()
        size_bytes, checksum = unfinished.stat().st_size, _checksum(unfinished)
        path = self._folder / f"{key}.{size_bytes}-{checksum:08x}.sqlite"
        unfinished.replace(path)
        found = self._open(path, is_checked=True)
        self.evict()
        return found

    def evict(self) -> int:
        """Remove the files used least recently until the rest fits; returns how many went.

        Files that any process has open stay, even when they do not fit.
        """
        found = []
        for path in self._entries():
            with contextlib.suppress(FileNotFoundError):
                found.append((path.stat().st_mtime, path.stat().st_size, path))
        removed = 0
        files = sorted(item for item in found if _NAME.match(item[2].name))
        excess_bytes = sum(size_bytes for _, size_bytes, _ in files) - self._max_bytes
        for _, size_bytes, path in files:
            if excess_bytes <= 0:
                break
            if self.remove(path):
                excess_bytes -= size_bytes
                removed += 1
        self.sweep()
        return removed

    def remove(self, path: Path) -> bool:
        """Remove a file unless somebody has it open."""
        try:
            with path.open("rb") as file:
                if not _try_lock(file.fileno()):
                    return False
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            return False
        return True

    def _open(self, path: Path, *, is_checked: bool = False) -> CompiledSession:
        match = _NAME.match(path.name)
        if match is None:
            raise BrokenFileError(f"{path.name}: not a name of a cached file")
        in_use = path.open("rb")
        try:
            fcntl.flock(in_use, fcntl.LOCK_SH)
            _check(path, in_use, match, is_checked=is_checked)
            compiled = open_compiled(path)
        except BaseException:
            in_use.close()
            raise
        compiled.keep_until_closed(in_use)
        return compiled


def _check(path: Path, file: IO[bytes], name: re.Match[str], *, is_checked: bool) -> None:
    if not path.exists():  # removed between opening and locking it
        raise FileNotFoundError(path)
    size_bytes = os.fstat(file.fileno()).st_size
    if size_bytes != int(name["size"]):
        raise BrokenFileError(f"{path.name}: has {size_bytes} bytes")
    if not is_checked and _checksum(path) != int(name["sum"], 16):
        raise BrokenFileError(f"{path.name}: its checksum is wrong")


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
