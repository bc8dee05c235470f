"""Which log files a session has right now, and who each one is whatever its name.

Ray rotates `x.out` to `x.out.1`, `.1` to `.2` and so on and deletes the oldest, so a name
says nothing about content: a file is known by device and inode, and by a fingerprint of its
first bytes, because file systems give the inode of a deleted file to the next new one.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from collector.tails.inside import OutsideError, open_inside, true_place, true_root

HEAD_BYTES = 256
"""How many of a file's first bytes make its fingerprint."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class SkipReason(Enum):
    """Why an entry of the logs directory is not followed."""

    NOT_REGULAR = "not_regular"
    """A socket, pipe or device."""
    LINKED_DIRECTORY = "linked_directory"
    """A symlink to a directory could lead out of the session or in a circle."""
    OUTSIDE_SESSION = "outside_session"
    """A symlink that leads out of the session directory."""
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
    paths: set[str] = field(default_factory=set)
    skipped: Counter[SkipReason] = field(default_factory=Counter)


def list_logs(logs_dir: Path, session_dir: Path) -> Listing:
    """List every regular file below `logs_dir`; each file once, under its real name if it has one.

    A missing directory is an empty listing: Ray makes it late, and removes it early.
    """
    listing = Listing()
    root = true_root(session_dir)
    linked: list[_Entry] = []
    for entry in _walk(logs_dir, root, listing.skipped):
        if entry.status is None:
            linked.append(entry)
        else:
            _add(listing, entry.path, entry.local, entry.status)
    for entry in linked:
        _add_linked(listing, entry, root)
    return listing


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a directory has, but for directories."""

    path: str
    local: Path
    status: os.stat_result | None
    """None for a symbolic link."""


def _walk(logs_dir: Path, root: str, skipped: Counter[SkipReason]) -> Iterator[_Entry]:
    """Yield all that may be a file, in the order of names."""
    waiting: list[tuple[str, Path]] = [("", logs_dir)]
    while waiting:
        prefix, directory = waiting.pop()
        try:
            descriptor = open_inside(directory, root, os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OutsideError:
            skipped[SkipReason.OUTSIDE_SESSION] += 1
            continue
        except OSError:
            skipped[SkipReason.UNREADABLE] += 1
            continue
        entries = []
        try:
            for entry in _entries(descriptor):
                path = prefix + _as_text(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((path + "/", directory / entry.name))
                    continue
                try:
                    status = None if entry.is_symlink() else entry.stat(follow_symlinks=False)
                except OSError:
                    skipped[SkipReason.UNREADABLE] += 1
                    continue
                entries.append(_Entry(path, directory / entry.name, status))
        finally:
            os.close(descriptor)
        yield from entries


def _entries(descriptor: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(descriptor) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:  # removed while it was read
        return []


def _add(listing: Listing, path: str, local: Path, status: os.stat_result) -> None:
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
    while path in listing.paths:  # names that are spelt out can meet another one
        path += "~"
    listing.paths.add(path)
    listing.files[file_id] = SeenFile(path, local, file_id, status.st_size, status.st_mtime_ns)


def _add_linked(listing: Listing, entry: _Entry, root: str) -> None:
    try:
        descriptor = open_inside(entry.local, root, os.O_PATH)
    except OutsideError:
        listing.skipped[SkipReason.OUTSIDE_SESSION] += 1
        return
    except OSError:
        listing.skipped[SkipReason.UNREADABLE] += 1
        return
    try:
        _add(listing, entry.path, true_place(descriptor), os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _as_text(name: str) -> str:
    """A name as a part of object keys: bytes that are no UTF-8 and control characters spelt out."""
    try:
        name.encode()
    except UnicodeEncodeError:
        name = os.fsencode(name).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", name)


def head_digest(head: bytes) -> str:
    """The fingerprint of these first bytes."""
    return hashlib.blake2b(head, digest_size=12).hexdigest()
