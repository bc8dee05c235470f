"""Listing a directory as flat keys, in their byte order, walking no folder that cannot match.

At most one folder's matching names per level are in memory. A folder `a` sorts as `a/`, so
`a-2` comes before what is in `a`, as in every object store. Skipped silently, since they are
no objects: symbolic links, devices and the like, reserved names, names that are no text, and
folders without any object.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from storage.backend import CommonPrefix, ObjectInfo
from storage.keys import MAX_KEY_BYTES, part_fault
from storage.local.errors import is_missing, typed_errors
from storage.local.folders import open_below, open_child, opened_folder, stat_below
from storage.local.names import MIDDLE_PREFIX, names_of_key, part_of_names

Names = tuple[str, ...]
_Level = tuple[int, str, Iterator[tuple[str, Names]]]
"""An open folder, its key (ends with `/`), and what is still to come of it."""

_MAX_PIECES = MAX_KEY_BYTES // 100


def object_info(key: str, found: os.stat_result) -> ObjectInfo:
    """What a file's stat says of the object."""
    return ObjectInfo(
        key=key,
        size_bytes=found.st_size,
        modified_ms=found.st_mtime_ns // 10**6,
        etag=f"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}",
    )


@dataclass(frozen=True)
class Listing:
    """One call of `list`: what is wanted of the tree."""

    directory: Path
    root: Sequence[str]
    """The names of the root prefix."""
    prefix: str
    delimiter: str | None
    start_after: str | None

    def items(self) -> Iterator[ObjectInfo | CommonPrefix]:
        """Yield the objects and common prefixes in order."""
        if self.delimiter in {None, "/"}:
            return self._walk()
        return self._grouped(str(self.delimiter))

    def _grouped(self, delimiter: str) -> Iterator[ObjectInfo | CommonPrefix]:
        """By a delimiter that is not the folders' own: group what a full walk gives."""
        last = ""
        for item in self._walk():
            if not isinstance(item, ObjectInfo):
                continue
            position = item.key.find(delimiter, len(self.prefix))
            if position < 0:
                yield item
                continue
            group = item.key[: position + len(delimiter)]
            if group != last and self._is_after(group):
                yield CommonPrefix(group)
            last = group

    def _walk(self) -> Iterator[ObjectInfo | CommonPrefix]:
        base = self.prefix[: self.prefix.rfind("/") + 1]
        start_fd = self._open_start(base)
        if start_fd is None:
            return
        levels: list[_Level] = []
        try:
            self._push(levels, start_fd, base)
            while levels:
                folder_fd, base, entries = levels[-1]
                text, names = next(entries, ("", ()))
                if not text:
                    levels.pop()
                    os.close(folder_fd)
                elif not text.endswith("/"):
                    yield from self._object(folder_fd, base + text, names)
                elif self.delimiter == "/":
                    if self._holds_object(folder_fd, base + text, names):
                        yield CommonPrefix(base + text)
                else:
                    inner_fd = self._opened(folder_fd, base + text, names)
                    if inner_fd is not None:
                        self._push(levels, inner_fd, base + text)
        finally:
            for folder_fd, _, _ in levels:
                os.close(folder_fd)

    def _push(self, levels: list[_Level], folder_fd: int, base: str) -> None:
        levels.append((folder_fd, base, iter(())))  # First, so that the walk closes it.
        levels[-1] = (folder_fd, base, self._wanted(folder_fd, base))

    def _open_start(self, base: str) -> int | None:
        names = [*self.root, *(names_of_key(base.rstrip("/")) if base else ())]
        with typed_errors("list", self.prefix):
            try:
                with opened_folder(self.directory, names) as fd:
                    return os.dup(fd)
            except OSError as error:
                if is_missing(error):
                    return None
                raise

    def _wanted(self, folder_fd: int, base: str) -> Iterator[tuple[str, Names]]:
        """The folder's entries that can match, sorted; a folder's text ends with `/`."""
        with typed_errors("list", base):
            found = [
                (text, names) for text, names in _entries(folder_fd) if self._can_match(base + text)
            ]
        found.sort()
        return iter(found)

    def _can_match(self, key: str) -> bool:
        if not key.startswith(self.prefix) or len(key.encode()) > MAX_KEY_BYTES:
            return False
        inside = key.endswith("/") and self.delimiter != "/" and self.start_after is not None
        return self._is_after(key) or (inside and str(self.start_after).startswith(key))

    def _is_after(self, key: str) -> bool:
        return self.start_after is None or key > self.start_after

    def _object(self, folder_fd: int, key: str, names: Names) -> Iterator[ObjectInfo]:
        found = None
        with typed_errors("list", key), suppress(FileNotFoundError):
            found = stat_below(folder_fd, names)
        if found is not None and stat.S_ISREG(found.st_mode):
            yield object_info(key, found)

    def _opened(self, folder_fd: int, key: str, names: Names) -> int | None:
        with typed_errors("list", key), suppress(FileNotFoundError, NotADirectoryError):
            return open_below(folder_fd, names)
        return None

    def _holds_object(self, folder_fd: int, key: str, names: Names) -> bool:
        """Whether there is any object in the folder: object stores know no empty ones."""
        if len(key.encode()) > MAX_KEY_BYTES:
            return False
        inner_fd = self._opened(folder_fd, key, names)
        if inner_fd is None:
            return False
        try:
            inner: list[tuple[str, Names]] = []
            with typed_errors("list", key):
                for text, inner_names in _entries(inner_fd):
                    if not text.endswith("/"):
                        return True
                    inner.append((text, inner_names))
            for text, inner_names in inner:
                if self._holds_object(inner_fd, key + text, inner_names):
                    return True
            return False
        finally:
            os.close(inner_fd)


def _entries(folder_fd: int, middle: Names = ()) -> Iterator[tuple[str, Names]]:
    """(part of a key, with `/` when it is a folder; the names that lead to it), unsorted."""
    with os.scandir(folder_fd) as found:
        for entry in found:
            names = (*middle, entry.name)
            if part_fault(entry.name) is not None:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and entry.name.startswith(MIDDLE_PREFIX) and len(names) < _MAX_PIECES:
                yield from _pieces(folder_fd, entry.name, names)
                continue
            part = part_of_names(names)
            if part is not None and (is_folder or entry.is_file(follow_symlinks=False)):
                yield (f"{part}/" if is_folder else part), names


def _pieces(folder_fd: int, name: str, names: Names) -> Iterator[tuple[str, Names]]:
    with suppress(FileNotFoundError):
        inner_fd = open_child(folder_fd, name)
        try:
            yield from _entries(inner_fd, names)
        finally:
            os.close(inner_fd)
