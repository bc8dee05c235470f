"""Bytes of a log file, from the final object or from the frames of live segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from historyserver.reading.damage import DamageLog, DamageReason
from historyserver.reading.frames import FrameError, SourceChangedError, read_range, unpack_frame
from historyserver.reading.source import LogPart
from storage.backend import Backend, NotFoundError


def read_log(
    backend: Backend,
    parts: Sequence[LogPart],
    start: int = 0,
    end: int | None = None,
    damage: DamageLog | None = None,
) -> Iterator[bytes]:
    """Yield the bytes [start, end) of a log in chunks; only what is needed is read.

    Gaps yield nothing, so what comes may be shorter than asked: `covered` tells which ranges
    there are. Memory is bounded by one chunk or one frame, whatever the size of the log.

    Args:
        backend: where the parts are.
        parts: of one log, in order, as `LogFile` has them.
        start: first byte.
        end: first byte that is not wanted; None means all.
        damage: where unreadable frames are counted.

    Raises:
        SourceChangedError: a part is gone, as happens while the session runs: locate again.
        StorageError: the store failed.

    """
    damage = DamageLog() if damage is None else damage
    for part in parts:
        first = max(start, part.log_start)
        stop = part.log_start + part.log_length
        stop = stop if end is None else min(stop, end)
        if first >= stop:
            continue
        if part.framing == "plain":
            at = part.object_start + first - part.log_start
            yield from _plain(backend, part.key, at, stop - first)
        else:
            frame = _frame(backend, part, damage)
            wanted = frame[first - part.log_start : stop - part.log_start]
            if wanted:
                yield wanted


def covered(parts: Sequence[LogPart], start: int, end: int) -> list[tuple[int, int]]:
    """Which ranges of [start, end) are stored, joined where they touch."""
    ranges: list[tuple[int, int]] = []
    for part in parts:
        first = max(start, part.log_start)
        stop = min(end, part.log_start + part.log_length)
        if first >= stop:
            continue
        if ranges and ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], stop)
        else:
            ranges.append((first, stop))
    return ranges


def _plain(backend: Backend, key: str, start: int, length: int) -> Iterator[bytes]:
    try:
        yield from backend.get_range(key, start, length)
    except NotFoundError as error:
        raise SourceChangedError(f"{key}: gone since the session was located") from error


def _frame(backend: Backend, part: LogPart, damage: DamageLog) -> bytes:
    packed = read_range(backend, part.key, part.object_start, part.object_length)
    try:
        frame = unpack_frame(packed)
    except FrameError:
        frame = b""
    if len(frame) < part.log_length:
        damage.add(DamageReason.CORRUPT_FRAME, part.key, part.object_length)
    return frame
