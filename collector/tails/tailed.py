"""What is known of one log file: how far it was read, and how to recognise it again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import msgspec

from collector.tails.files import HEAD_BYTES, FileId, head_digest


class LogEndReason(Enum):
    """Why an incarnation of a log file will not grow any more while the session runs."""

    DELETED = "deleted"
    """The file is gone: Ray drops the oldest rotation, users delete their own logs."""
    TRUNCATED = "truncated"
    """The file was cut in place (copy and truncate), or its inode serves a new file."""
    GIVEN_UP = "given_up"
    """Deleted, and the unread rest took too much disk while storage was down: a gap."""


class TailState(msgspec.Struct, omit_defaults=True):
    """What a restarted collector must know of one incarnation, as kept on the local disk."""

    incarnation: str
    device: int
    inode: int
    path: str
    offset: int = 0
    size_bytes: int = 0
    mark: str = ""
    gone: bool = False
    rewritten: bool = False


@dataclass(slots=True)
class TailedLog:
    """One incarnation of one log file, followed from its first byte to its last.

    `offset` is what storage has; `read_offset` runs ahead of it while a segment is on its
    way. The unread rest of a file that ended (`gone` and `offset < size_bytes`) is a gap.
    """

    incarnation: str
    file_id: FileId
    path: str
    local: Path | None = None
    offset: int = 0
    read_offset: int = 0
    size_bytes: int = 0
    modified_ns: int = 0
    mark: str = ""
    vanished: bool = False
    """Deleted, but its rest can still be read through an open descriptor."""
    gone: bool = False
    rewritten: bool = False
    """Written anew in place again and again, as `debug_state.txt`: only the last content counts."""
    truncations: int = 0
    reading_ns: int = 0
    stored_ns: int = 0
    """For files that are rewritten: modification times of the content read last, and stored."""
    read_s: float = float("-inf")
    """When it was read last, on the monotonic clock; kept for files that are rewritten."""

    @property
    def unread_bytes(self) -> int:
        """What can still be read and is not in storage nor on its way there."""
        return 0 if self.gone else max(0, self.size_bytes - self.read_offset)

    @property
    def gap(self) -> tuple[int, int] | None:
        """The bytes that existed and can no longer be read."""
        return (
            (self.offset, self.size_bytes) if self.gone and self.offset < self.size_bytes else None
        )

    def state(self) -> TailState:
        """What to keep on disk."""
        return TailState(
            self.incarnation,
            self.file_id.device,
            self.file_id.inode,
            self.path,
            self.offset,
            self.size_bytes,
            self.mark,
            self.gone,
            self.rewritten,
        )

    @classmethod
    def restored(cls, state: TailState) -> TailedLog:
        """The tail that an earlier process left."""
        return cls(
            incarnation=state.incarnation,
            file_id=FileId(state.device, state.inode),
            path=state.path,
            offset=state.offset,
            read_offset=state.offset,
            size_bytes=state.size_bytes,
            mark=state.mark,
            gone=state.gone,
            rewritten=state.rewritten,
        )


def mark_of(descriptor: int, offset: int) -> str:
    """A digest of the first bytes of a file and of the last ones before `offset`.

    It tells, before more is read, that the file is still the one that was read so far: not
    cut and written anew, and not another file that was given the same inode.
    """
    if offset == 0:
        return ""
    length = min(HEAD_BYTES, offset)
    head = os.pread(descriptor, length, 0)
    last = os.pread(descriptor, length, offset - length)
    if len(head) != length or len(last) != length:
        return ""
    return head_digest(head + last)


def mark_of_content(head: bytes, last: bytes, offset: int) -> str:
    """The same mark, from the first and last stored bytes of a log (at least 256 of each)."""
    length = min(HEAD_BYTES, offset)
    return head_digest(head[:length] + last[-length:]) if length else ""
