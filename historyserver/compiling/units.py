"""Cuts the event files of a session into units of work of like size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from historyserver.reading.blocks import is_gzip, line_blocks
from historyserver.reading.damage import DamageLog
from historyserver.reading.events import open_events
from historyserver.reading.source import EventFile
from storage.backend import Backend, StorageError

UNIT_BYTES = 12 * 1024 * 1024
"""Plain files are cut into parts of this size, so that two processes end at the same time."""

SMALL_BYTES = 24 * 1024 * 1024
"""Below this many plain bytes of events, starting processes costs more than they save."""

_PACKED = 11
"""How many times smaller gzip makes Ray's events (measured: 10.8)."""

BYTES_PER_ATTEMPT = 4000
"""Plain bytes of all events of one attempt (measured: 4.05 to 4.17 KB)."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A file, or a part of a plain one: the lines that begin in [start, stop)."""

    file: EventFile
    start: int = 0
    stop: int = 0
    """0: the whole file."""

    @property
    def plain_bytes(self) -> int:
        """About how many bytes there are to decode."""
        if self.stop:
            return self.stop - self.start
        return plain_bytes((self.file,))


def plain_bytes(files: Iterable[EventFile]) -> int:
    """Tell about how many bytes the files have when unpacked."""
    return sum(file.size_bytes * (1 if file.framing == "plain" else _PACKED) for file in files)


def cut(backend: Backend, files: Iterable[EventFile]) -> list[Unit]:
    """Cut the files; the largest units come first, so that no process waits long for another."""
    units = [unit for file in files for unit in _cut_one(backend, file)]
    return sorted(units, key=lambda unit: -unit.plain_bytes)


def _cut_one(backend: Backend, file: EventFile) -> list[Unit]:
    if file.framing != "plain" or file.size_bytes < 2 * UNIT_BYTES:
        return [Unit(file)]
    try:
        first = b"".join(backend.get_range(file.key, 0, 64))
    except StorageError:
        return [Unit(file)]  # reading it whole counts or raises what is wrong
    if is_gzip(first[:2]) or first.lstrip()[:1] != b"{":
        return [Unit(file)]
    starts = range(0, file.size_bytes, UNIT_BYTES)
    return [Unit(file, start, min(start + UNIT_BYTES, file.size_bytes)) for start in starts]


def blocks(backend: Backend, unit: Unit, damage: DamageLog) -> Iterator[bytes]:
    """Yield a unit's blocks of whole lines."""
    if not unit.stop:
        return open_events(backend, unit.file, damage)
    return line_blocks(_lines_from(backend, unit), key=unit.file.key, damage=damage)


def _lines_from(backend: Backend, unit: Unit) -> Iterator[bytes]:
    r"""Yield the bytes of the lines that begin in the unit: to the first `\n` at or past `stop`."""
    position = max(unit.start - 1, 0)  # the byte before tells whether a line begins at `start`
    skipping = unit.start > 0
    for chunk in backend.get_range(unit.file.key, position):
        data = chunk
        if skipping:
            cut_at = data.find(b"\n") + 1
            position += cut_at or len(data)
            if not cut_at:
                continue
            skipping = False
            data = data[cut_at:]
        if position >= unit.stop:
            return
        last = position + len(data)
        if last < unit.stop:
            yield data
            position = last
            continue
        end = data.find(b"\n", unit.stop - 1 - position)
        if end < 0:
            yield data
            # The line that crosses `stop` goes on: position stays below it until its end.
            position = unit.stop - 1
            continue
        yield data[: end + 1]
        return
