"""A bounded set of open log files, so that a file can be read to its end after it is deleted."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Collection
from threading import Lock

from collector.tails.files import FileId
from collector.tails.inside import OutsideError, open_inside
from collector.tails.tailed import TailedLog


class Descriptors:
    """Open read descriptors by incarnation; the least used one that may be closed goes first.

    An open descriptor keeps a deleted file readable and its inode from being used again,
    which is what makes following rotations exact. Sessions can have tens of thousands of
    logs, so only the ones read last stay open.

    Args:
        limit: how many stay open.
        root: the session's directory; nothing outside is opened.

    """

    def __init__(self, *, limit: int, root: str) -> None:
        self._limit, self._root = limit, root
        self._open: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()

    @property
    def full(self) -> bool:
        """Whether one more would close another one."""
        return len(self._open) >= self._limit

    def holds(self, incarnation: str) -> bool:
        """Whether this incarnation is open."""
        return incarnation in self._open

    def get(self, log: TailedLog, *, keep: Collection[str] = ()) -> int | None:
        """The descriptor of this log, opened when needed; None when its file is not there.

        Args:
            log: which; a file that is another one by now does not count as there.
            keep: incarnations that must not be closed to make room.

        """
        with self._lock:
            descriptor = self._open.get(log.incarnation)
            if descriptor is not None:
                self._open.move_to_end(log.incarnation)
                return descriptor
            descriptor = _open_same(log, self._root)
            if descriptor is None:
                return None
            self._make_room(keep)
            self._open[log.incarnation] = descriptor
            return descriptor

    def duplicate(self, log: TailedLog) -> int | None:
        """A descriptor of its own for a long read in another thread; the caller closes it."""
        with self._lock:
            held = self._open.get(log.incarnation)
            return os.dup(held) if held is not None else _open_same(log, self._root)

    def close(self, incarnation: str) -> None:
        """Close one; one that is not open is no error."""
        with self._lock:
            descriptor = self._open.pop(incarnation, None)
            if descriptor is not None:
                os.close(descriptor)

    def close_all(self) -> None:
        """Close every one."""
        with self._lock:
            while self._open:
                os.close(self._open.popitem()[1])

    def _make_room(self, keep: Collection[str]) -> None:
        if len(self._open) < self._limit:
            return
        for incarnation in self._open:
            if incarnation not in keep:
                os.close(self._open.pop(incarnation))
                return


def _open_same(log: TailedLog, root: str) -> int | None:
    """Open the log's file by its name, unless a rotation has put another one there."""
    if log.local is None:
        return None
    try:
        descriptor = open_inside(log.local, root, os.O_NOFOLLOW)
    except (OSError, OutsideError):
        return None
    if FileId.of(os.fstat(descriptor)) != log.file_id:
        os.close(descriptor)
        return None
    return descriptor
