"""Puts the rows of all partitions into one order and completes what needs that order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from historyserver.compiling.labour import stored_rows
from historyserver.folding.log_offsets import LogChain
from historyserver.folding.records import WorkerRecord
from historyserver.folding.task_rows import (
    COLUMN_DETAIL,
    COLUMN_FUNC,
    COLUMN_LOG,
    COLUMN_NAME,
    COLUMN_STATE,
)

_DETAIL_HEADER = b"\x99"
"""An array of nine: `TaskDetail` with its last field, which the reducers leave out."""
_NO_LOG = b"\xc0"

_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class _Place:
    """Where a worker process was, as its tasks tell."""

    node: int | None
    pid: int | None
    job: int | None


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

    def rows(self) -> Iterator[list[Any]]:
        """Yield the rows for `CompiledWriter.add_tasks`, in start order."""
        streams = [stored_rows(self._folder, number) for number in range(self._partitions)]
        merged = streams[0] if len(streams) == 1 else heapq.merge(*streams)
        counts = self.counts
        places, place_log = self._places, self._chain.place
        for row in merged:
            job, state, kind, name, func, _, node, worker, pid = row[3:12]
            if state.__class__ is str or name.__class__ is str or func.__class__ is str:
                state, name, func = map(self._late_id, (state, name, func))
                row[COLUMN_STATE], row[COLUMN_NAME], row[COLUMN_FUNC] = state, name, func
            key = (job or 0, func or 0, kind or 0, state)
            counts[key] = counts.get(key, 0) + 1
            if worker is not None and worker not in places:
                places[worker] = _Place(node, pid, job)
            log = row[COLUMN_LOG]
            tail = _NO_LOG if log is None else _encode(place_log(worker or 0, log))
            row[COLUMN_DETAIL] = _DETAIL_HEADER + row[COLUMN_DETAIL][1:] + tail
            yield row[1:COLUMN_LOG]

    def workers(self) -> list[WorkerRecord]:
        """Give the worker processes that tasks tell of; Ray has events of its own since 2.60."""
        texts = self._texts
        return [
            WorkerRecord(
                worker_id=texts[worker],
                node_id=texts.get(place.node or 0, ""),
                job_id=texts.get(place.job or 0, ""),
                pid=place.pid or 0,
                worker_type="WORKER",
            )
            for worker, place in self._places.items()
        ]

    def _late_id(self, value: int | str | None) -> int | None:
        """Give the id of a text that no dictionary had; what is an id already stays."""
        if not isinstance(value, str):
            return value
        found = self.late_strings.get(value)
        if found is None:
            found = self.late_strings[value] = len(self._texts) + 1
            self._texts[found] = value
        return found
