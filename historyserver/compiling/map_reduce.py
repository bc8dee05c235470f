"""What one process does of a compile: map event files to attempts, reduce attempts to rows.

Mapping folds units of event files and puts attempts aside in one file per partition, by a hash
of the task id. Reducing takes a partition from all mappers, merges what belongs together and
writes finished rows in start order. So no process ever holds more than its share, and owner's
and executor's halves of an attempt meet wherever they were stored.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from historyserver.compiled.details import DETAILS_PER_CHUNK, DetailPacker, detail_number
from historyserver.compiling.partition_files import read_frames, write_frame
from historyserver.compiling.rendering import lineage_row, render_lineage
from historyserver.compiling.units import Unit, blocks
from historyserver.folding.attempts import Attempt, merge_attempts
from historyserver.folding.folder import Folder
from historyserver.folding.shapes import Shape
from historyserver.folding.task_rows import COLUMN_DETAIL, Row, RowContext, RowMaker
from historyserver.reading.damage import DamageLog
from storage.backend import Backend

ATTEMPTS_HELD = 60_000
"""A mapper puts its attempts aside when it holds this many."""

BYTES_HELD = 192 * 1024 * 1024
"""Or when it has folded this many bytes since, for events that are unusually large."""

ATTEMPTS_PER_FRAME = 2000
ROWS_PER_FRAME = 1000
MAX_CHUNK_BYTES = 256 * 1024
"""A chunk of details ends at this size, for tasks with huge error messages."""

_encode = msgspec.msgpack.Encoder().encode
_decode_rows = msgspec.msgpack.Decoder(list[list[Any]]).decode
_decode_attempts = msgspec.msgpack.Decoder(list[Attempt]).decode


@dataclass(slots=True)
class MapResult:
    """What a mapper learnt beside its attempts."""

    shapes: list[Shape] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    damage: DamageLog = field(default_factory=DamageLog)
    entity_lines: list[bytes] = field(default_factory=list)
    strings: set[str] = field(default_factory=set)
    """Node and worker ids, error types."""
    tails: set[bytes] = field(default_factory=set)
    """The last 16 bytes of task ids: actor and job."""
    session_dirs: set[str] = field(default_factory=set)
    latest_ns: int = 0


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """What every reducer needs."""

    context: RowContext
    shapes: Sequence[Shape]
    shape_numbers: Mapping[int, Sequence[int]]
    """Mapper's number to its shapes' numbers among `shapes`."""


class CompileWorker:
    """One process's part in a compile."""

    def __init__(self, backend: Backend, folder: Path, number: int, partitions: int) -> None:
        self._backend = backend
        self._folder = folder
        self._number = number
        self._partitions = partitions
        self._folded = Folder()
        self._result = MapResult()
        self._bytes_held = 0

    def map(self, unit: Unit) -> None:
        """Fold one unit."""
        for block in blocks(self._backend, unit, self._result.damage):
            self._folded.fold(block)
            self._bytes_held += len(block)
            if len(self._folded.tasks.attempts) >= ATTEMPTS_HELD or self._bytes_held >= BYTES_HELD:
                self._put_aside()

    def finish_map(self) -> MapResult:
        """Put the last attempts aside and tell what was learnt."""
        self._put_aside()
        folded, result = self._folded, self._result
        result.shapes = folded.tasks.shapes
        result.events, result.skipped = folded.events, folded.skipped
        result.entity_lines = list(folded.entity_lines)
        result.session_dirs = folded.tasks.session_dirs
        result.latest_ns = folded.tasks.latest_ns
        self._folded, self._result = Folder(), MapResult()
        return result

    def reduce(self, plan: ReducePlan, partition: int) -> int:
        """Make the sorted rows of one partition. Returns how many."""
        merged = self._merge(plan, partition)
        rows = list(RowMaker(plan.context, plan.shapes).rows(merged))
        merged.clear()
        rows.sort()
        self._put_details_aside(rows, partition)
        with (
            _row_path(self._folder, partition).open("wb") as file,
            _lineage_path(self._folder, partition).open("wb") as lineage,
        ):
            for start in range(0, len(rows), ROWS_PER_FRAME):
                part = rows[start : start + ROWS_PER_FRAME]
                write_frame(file, _encode(part))
                write_frame(lineage, _encode([lineage_row(row) for row in part]))
        return len(rows)

    def _put_details_aside(self, rows: Sequence[Row], partition: int) -> None:
        """Pack the details of a partition's rows; each row keeps the number of its own."""
        pack = DetailPacker().pack
        held: list[bytes] = []
        size_bytes = 0
        chunk = partition
        with _detail_path(self._folder, partition).open("wb") as file:
            for row in rows:
                detail: bytes = row[COLUMN_DETAIL]
                if len(held) == DETAILS_PER_CHUNK or size_bytes > MAX_CHUNK_BYTES:
                    write_frame(file, pack(held))
                    held, size_bytes = [], 0
                    chunk += self._partitions
                row[COLUMN_DETAIL] = detail_number(chunk, len(held))
                held.append(detail)
                size_bytes += len(detail)
            if held:
                write_frame(file, pack(held))

    def lineage(self, plan: ReducePlan, actor_names: Mapping[str, str]) -> dict[str, bytes]:
        """Render the summaries by lineage from the rows of all partitions, when all are made."""
        rows = (
            row
            for partition in range(self._partitions)
            for frame in read_frames(_lineage_path(self._folder, partition))
            for row in _decode_rows(frame)
        )
        return render_lineage(rows, plan.context.string_ids, actor_names)

    def _put_aside(self) -> None:
        attempts = self._folded.tasks.attempts
        parts: list[list[Attempt]] = [[] for _ in range(self._partitions)]
        crc32, partitions = zlib.crc32, self._partitions
        strings, tails = self._result.strings, self._result.tails
        for attempt in attempts.values():
            parts[crc32(attempt.task_id) % partitions].append(attempt)
            tails.add(attempt.task_id[8:])
            strings.add(attempt.node)
            strings.add(attempt.worker)
            if attempt.error is not None:
                strings.add(attempt.error[1])
        for partition, part in enumerate(parts):
            with _part_path(self._folder, partition, self._number).open("ab") as file:
                for start in range(0, len(part), ATTEMPTS_PER_FRAME):
                    write_frame(file, _encode(part[start : start + ATTEMPTS_PER_FRAME]))
        self._folded.tasks.clear_attempts()
        self._bytes_held = 0

    def _merge(self, plan: ReducePlan, partition: int) -> dict[bytes, Attempt]:
        merged: dict[bytes, Attempt] = {}
        for mapper, numbers in plan.shape_numbers.items():
            for frame in read_frames(_part_path(self._folder, partition, mapper)):
                for attempt in _decode_attempts(frame):
                    if attempt.shape >= 0:
                        attempt.shape = numbers[attempt.shape]
                    key = attempt.task_id
                    if attempt.number:
                        key += attempt.number.to_bytes(4, "big")
                    known = merged.setdefault(key, attempt)
                    if known is not attempt:
                        merge_attempts(known, attempt)
        return merged


def stored_rows(folder: Path, partition: int) -> Iterator[list[list[Any]]]:
    """Yield the finished rows of a partition, in start order, some at a time."""
    for frame in read_frames(_row_path(folder, partition)):
        yield _decode_rows(frame)


def stored_details(folder: Path, partitions: int) -> Iterator[tuple[int, bytes]]:
    """Yield the chunks of details with their numbers, which are given to partitions in turn."""
    for partition in range(partitions):
        for count, chunk in enumerate(read_frames(_detail_path(folder, partition))):
            yield partition + count * partitions, chunk


def _row_path(folder: Path, partition: int) -> Path:
    return folder / f"rows-{partition}"


def _detail_path(folder: Path, partition: int) -> Path:
    return folder / f"details-{partition}"


def _lineage_path(folder: Path, partition: int) -> Path:
    return folder / f"lineage-{partition}"


def _part_path(folder: Path, partition: int, mapper: int) -> Path:
    return folder / f"part-{partition}-{mapper}"
