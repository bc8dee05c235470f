"""Puts the rows of all partitions into one order and completes what needs that order."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from historyserver.compiling.map_reduce import stored_details, stored_rows
from historyserver.folding.log_offsets import LogChain
from historyserver.folding.records import WorkerRecord
from historyserver.folding.task_rows import (
    COLUMN_FUNC,
    COLUMN_JOB,
    COLUMN_LOG,
    COLUMN_NAME,
    COLUMN_NODE,
    COLUMN_PARENT,
    COLUMN_PID,
    COLUMN_STATE,
    COLUMN_TASK_ID,
    COLUMN_TYPE,
    COLUMN_WORKER,
    Row,
)

_counted = itemgetter(COLUMN_JOB, COLUMN_FUNC, COLUMN_TYPE, COLUMN_STATE)


@dataclass(slots=True)
class _Place:
    """Where a worker process was, as its tasks tell."""

    node: int
    pid: int
    job: int


class TaskTable:
    """The stream of finished rows, and what is counted while it passes by."""

    def __init__(self, folder: Path, partitions: int, string_ids: Mapping[str, int]) -> None:
        self.counts: dict[tuple[int, int, int, int], int] = {}
        """Attempts by (job, func, type, state)."""
        self.late_strings: dict[str, int] = {}
        """Texts that no dictionary had yet, with the ids given to them here."""
        self._folder = folder
        self._partitions = partitions
        self._texts = {number: text for text, number in string_ids.items()}
        self._places: dict[int, _Place] = {}
        self._chain = LogChain()

    def rows(self) -> Iterator[Row]:
        """Yield the rows for `CompiledWriter.add_tasks`, in start order."""
        counts = Counter[tuple[int, ...]]()
        streams = [stored_rows(self._folder, number) for number in range(self._partitions)]
        for batch in streams[0] if len(streams) == 1 else merged(streams):
            self._complete(batch)
            counts.update(map(_counted, batch))
            yield from batch
        for (job, func, kind, state), count in counts.items():
            self.counts[job, func, kind, state] = count

    def details(self) -> Iterator[tuple[int, bytes]]:
        """Yield the chunks for `CompiledWriter.add_details`."""
        return stored_details(self._folder, self._partitions)

    def _complete(self, batch: list[Row]) -> None:
        places, place_log = self._places, self._chain.place
        for row in batch:
            state, name, func, worker, log = (
                row[COLUMN_STATE],
                row[COLUMN_NAME],
                row[COLUMN_FUNC],
                row[COLUMN_WORKER],
                row[COLUMN_LOG],
            )
            if state.__class__ is str or name.__class__ is str or func.__class__ is str:
                row[COLUMN_STATE], row[COLUMN_NAME], row[COLUMN_FUNC] = map(
                    self._late_id, (state, name, func)
                )
            if worker and worker not in places:
                places[worker] = _Place(row[COLUMN_NODE], row[COLUMN_PID], row[COLUMN_JOB])
            row[COLUMN_TASK_ID] = bytearray(row[COLUMN_TASK_ID])
            row[COLUMN_PARENT] = bytearray(row[COLUMN_PARENT])
            if log is None:
                row[COLUMN_LOG] = -1
            else:
                row[COLUMN_LOG], row[COLUMN_LOG + 1] = place_log(worker, log)

    def workers(self) -> list[WorkerRecord]:
        """Give the worker processes that tasks tell of; Ray has events of its own since 2.60."""
        texts = self._texts
        return [
            WorkerRecord(
                worker_id=texts[worker],
                node_id=texts.get(place.node, ""),
                job_id=texts.get(place.job, ""),
                pid=max(place.pid, 0),
                worker_type="WORKER",
            )
            for worker, place in self._places.items()
        ]

    def _late_id(self, value: int | str) -> int:
        """Give the id of a text that no dictionary had; what is an id already stays."""
        if not isinstance(value, str):
            return value
        found = self.late_strings.get(value)
        if found is None:
            found = self.late_strings[value] = len(self._texts) + 1
            self._texts[found] = value
        return found


def merged(streams: Iterable[Iterator[list[Row]]]) -> Iterator[list[Row]]:
    """Merge streams of sorted batches into one; whole batches at a time, as sorting runs is fast.

    What is at most the smallest last row of all batches in hand cannot be preceded by any row
    that is still to come.
    """
    held = [(batch, stream) for stream in streams if (batch := next(stream, []))]
    while held:
        bound = min(batch[-1] for batch, _ in held)
        ready: list[Row] = []
        rest: list[tuple[list[Row], Iterator[list[Row]]]] = []
        for batch, stream in held:
            cut = bisect_right(batch, bound)
            ready += batch[:cut]
            following = batch[cut:] or next(stream, [])
            if following:
                rest.append((following, stream))
        ready.sort()
        yield ready
        held = rest
