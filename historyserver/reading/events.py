"""Event files of every generation, as blocks of whole JSON lines."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from historyserver.reading.arrays import array_blocks
from historyserver.reading.blocks import first_bytes, gunzip, is_gzip, line_blocks
from historyserver.reading.damage import DamageLog, DamageReason
from historyserver.reading.frames import (
    FrameError,
    read_frames,
    split_frames,
    unpack_frame,
)
from historyserver.reading.source import EventFile
from storage.backend import Backend, NotFoundError

_SPACE_AND_BOM = b" \t\r\n\xef\xbb\xbf"


class _EventHead(msgspec.Struct):
    """Marks a line as an event of Ray; snake_case when Ray is set so."""

    event_id: str = ""
    event_id_camel: str = msgspec.field(default="", name="eventId")
    event_type: str = ""
    event_type_camel: str = msgspec.field(default="", name="eventType")


def open_events(
    backend: Backend, file: EventFile, damage: DamageLog | None = None
) -> Iterator[bytes]:
    r"""Yield the file's events as blocks of JSON lines, each block ending with `\n`.

    Blocks have about 1 MiB; a larger one holds one large event. What cannot be read is counted
    in `damage` and left out, what comes before it is kept. Lines are not checked one by one:
    one that is no JSON reaches the caller, and empty ones may occur.

    Args:
        backend: where the file is.
        file: which, as `locate` gives it.
        damage: where losses are counted; they are in the log in any case.

    Raises:
        SourceChangedError: a live segment is gone; locate the session again.
        StorageError: the store failed, which says nothing of the data.

    """
    damage = DamageLog() if damage is None else damage
    if file.framing == "segment":
        yield from _segment(backend, file, damage)
        return
    try:
        first, stream = first_bytes(_counted(backend, file, damage))
    except NotFoundError:
        damage.add(DamageReason.OBJECT_GONE, file.key, file.size_bytes)
        return
    if is_gzip(first):
        stream = gunzip(stream, key=file.key, damage=damage)
    first, stream = first_bytes(stream, strip=_SPACE_AND_BOM)
    if first[:1] == b"[":
        yield from array_blocks(stream, key=file.key, damage=damage)
    else:
        yield from line_blocks(stream, key=file.key, damage=damage)


def _counted(backend: Backend, file: EventFile, damage: DamageLog) -> Iterator[bytes]:
    """The object's chunks; says so when they are fewer bytes than were listed.

    More of them are no damage: v1.6 writes an hour's file anew, and stores may unpack gzip.
    """
    read_bytes = 0
    for chunk in backend.get(file.key):
        read_bytes += len(chunk)
        yield chunk
    if read_bytes < file.size_bytes:
        damage.add(DamageReason.SHORT_OBJECT, file.key, file.size_bytes - read_bytes)


def _segment(backend: Backend, file: EventFile, damage: DamageLog) -> Iterator[bytes]:
    if file.frames:
        for packed in read_frames(backend, file.key, file.frames):
            yield from _frame(packed, file.key, damage)
        return
    try:
        for lines in split_frames(backend.get(file.key)):
            if _holds_events(lines):
                yield from line_blocks((lines,), key=file.key, damage=damage)
            else:
                damage.add(DamageReason.NOT_AN_EVENT_FRAME, file.key, len(lines))
    except FrameError:
        damage.add(DamageReason.CORRUPT_FRAME, file.key, 0)
    except NotFoundError:
        damage.add(DamageReason.OBJECT_GONE, file.key, file.size_bytes)


def _frame(packed: bytes, key: str, damage: DamageLog) -> Iterator[bytes]:
    try:
        lines = unpack_frame(packed)
    except FrameError:
        damage.add(DamageReason.CORRUPT_FRAME, key, len(packed))
        return
    yield from line_blocks((lines,), key=key, damage=damage)


def _holds_events(lines: bytes) -> bool:
    """Whether a frame that nothing names holds events and no log.

    Ray's own event logs are JSON lines too, with `event_id` but without `event_type`.
    """
    first = lines[: lines.find(b"\n") + 1]
    try:
        head = msgspec.json.decode(first, type=_EventHead)
    except (msgspec.DecodeError, RecursionError):
        return False
    return bool(head.event_id or head.event_id_camel) and bool(
        head.event_type or head.event_type_camel
    )
