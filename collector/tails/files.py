"""Which log files a session has right now, and who each one is whatever its name.

Ray rotates `x.out` to `x.out.1`, `.1` to `.2` and so on and deletes the oldest, so a name
says nothing about content: a file is known by device and inode, and by a fingerprint of its
first bytes, because file systems give the inode of a deleted file to the next new one.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

HEAD_BYTES = 256
"""How many of a file's first bytes make its fingerprint."""


class SkipReason(Enum):
    """Why an entry of the logs directory is not followed."""

    NOT_REGULAR = "not_regular"
    """A socket, pipe or device."""
    LINKED_DIRECTORY = "linked_directory"
    """A symlink to a directory could lead out of the session or in a circle."""
    OUTSIDE_SESSION = "outside_session"
    """A symlink to a file outside the session directory."""
    SAME_FILE = "same_file"
    """Another name of a file that is followed already."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, order=True)
class FileId:
    """What stays the same when a file is renamed."""

    device: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileId:
        """The identity of an open or listed file."""
        return cls(status.st_dev, status.st_ino)


@dataclass(frozen=True, slots=True)
class SeenFile:
    """One regular file as a listing saw it."""

    path: str
    """Relative to the logs directory, `/` between parts, always valid Unicode."""
    local: Path
    file_id: FileId
    size_bytes: int
    modified_ns: int


@dataclass(slots=True)
class Listing:
    """One look at the logs directory."""

    files: dict[FileId, SeenFile] = field(default_factory=dict)
    skipped: Counter[SkipReason] = field(default_factory=Counter)


def list_logs(logs_dir: Path, session_dir: Path) -> Listing:
    """List every regular file below `logs_dir`; each file once, under its real name if it has one.

    A missing directory is an empty listing: Ray makes it late, and removes it early.
    """
    listing = Listing()
    linked: list[tuple[str, os.DirEntry[str]]] = []
    for path, entry in _walk(logs_dir, listing.skipped):
        if entry.is_symlink():
            linked.append((path, entry))
        else:
            _add(listing, path, Path(entry.path))
    if linked:
        root = session_dir.resolve()
        for path, entry in linked:
            _add_linked(listing, path, Path(entry.path), root)
    return listing


def _walk(logs_dir: Path, skipped: Counter[SkipReason]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield (relative path, entry) of all that may be a file, in the order of names."""
    waiting: list[tuple[str, str]] = [("", str(logs_dir))]
    while waiting:
        prefix, directory = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            skipped[SkipReason.UNREADABLE] += 1
            continue
        for entry in ordered:
            path = prefix + _as_unicode(entry.name)
            if entry.is_dir(follow_symlinks=False):
                waiting.append((path + "/", entry.path))
            else:
                yield path, entry


def _add(listing: Listing, path: str, local: Path) -> None:
    try:
        status = local.stat()
    except OSError:
        listing.skipped[SkipReason.UNREADABLE] += 1
        return
    if not stat.S_ISREG(status.st_mode):
        reason = SkipReason.NOT_REGULAR
        if stat.S_ISDIR(status.st_mode):
            reason = SkipReason.LINKED_DIRECTORY
        listing.skipped[reason] += 1
        return
    file_id = FileId.of(status)
    if file_id in listing.files:
        listing.skipped[SkipReason.SAME_FILE] += 1
        return
    listing.files[file_id] = SeenFile(path, local, file_id, status.st_size, status.st_mtime_ns)


def _add_linked(listing: Listing, path: str, local: Path, root: Path) -> None:
    try:
        target = local.resolve(strict=True)
    except (OSError, RuntimeError):
        listing.skipped[SkipReason.UNREADABLE] += 1
        return
    if not target.is_relative_to(root):
        listing.skipped[SkipReason.OUTSIDE_SESSION] += 1
        return
    _add(listing, path, target)


def _as_unicode(name: str) -> str:
    """A name that is no UTF-8 with its odd bytes spelt out: object keys are Unicode."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    return name


def fingerprint(descriptor: int, length: int) -> str:
    """A digest of the first `length` bytes; `""` when there are fewer (or length is 0)."""
    head = os.pread(descriptor, length, 0) if length else b""
    return head_digest(head) if head and len(head) == length else ""


def head_digest(head: bytes) -> str:
    """The fingerprint of these first bytes."""
    return hashlib.blake2b(head, digest_size=12).hexdigest()
