"""Folds events the way a compile does, with as many mappers and partitions as a test wants."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from historyserver.compiled.details import DETAILS_PER_CHUNK, placed, unpack
from historyserver.compiling.entities import Entities, gather_entities
from historyserver.compiling.map_reduce import CompileWorker, MapResult
from historyserver.compiling.plan import make_plan
from historyserver.compiling.task_table import TaskTable
from historyserver.compiling.units import Unit
from historyserver.folding.records import TaskDetail
from historyserver.folding.task_rows import COLUMN_DETAIL, Row
from historyserver.reading.source import EventFile, SessionSource
from storage.layout import SessionRef
from storage.local.backend import LocalBackend

Json = dict[str, Any]

SESSION = "session_2026-11-30_21-46-10_843035_1"


class Folded:
    """What folding made of some events."""

    def __init__(
        self, rows: list[list[Any]], texts: dict[int, str], mapped: MapResult, entities: Entities
    ) -> None:
        self.rows = rows
        self.texts = texts
        self.mapped = mapped
        self.entities = entities

    def comparable(self) -> tuple[list[list[Any]], list[Any], list[Any], list[Any], list[Any]]:
        """Everything, with numbers of strings replaced by the strings."""
        entities = self.entities
        return (
            [
                [
                    self.texts.get(value, value) if column in _STRINGS else value
                    for column, value in enumerate(row)
                ]
                for row in self.rows
            ],
            entities.actors,
            entities.jobs,
            entities.nodes,
            entities.workers,
        )

    def skipped(self) -> dict[str, int]:
        """What was left out, by reason."""
        return dict(self.mapped.skipped)


_STRINGS = frozenset({2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 17, 18})


def lines(events: list[Json]) -> bytes:
    """Events as JSON lines."""
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def fold_bodies(bodies: list[bytes], *, partitions: int = 1, state: str = "ended") -> Folded:
    """Fold files, each by a mapper of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bucket").mkdir()
        backend = LocalBackend(folder / "bucket")
        mapped: dict[int, MapResult] = {}
        workers = []
        for number, body in enumerate(bodies):
            backend.put(f"{number}.jsonl", body)
            worker = CompileWorker(backend, folder, number, partitions)
            worker.map(Unit(EventFile(f"{number}.jsonl", "", len(body), "", "plain")))
            mapped[number] = worker.finish_map()
            workers.append(worker)
        source = SessionSource(
            session=SessionRef("ns", "c", SESSION),
            generation="C",
            event_files=(),
            log_files=(),
            snapshots=(),
            state=state,
        )
        entities = gather_entities(mapped, source, 0)
        plan = make_plan(mapped, entities, SESSION)
        for partition in range(partitions):
            workers[-1].reduce(plan, partition)
        table = TaskTable(folder, partitions, plan.context.string_ids)
        details = {number: unpack(chunk) for number, chunk in table.details()}
        rows = [_whole(row, details) for row in table.rows()]
        ids = {**plan.context.string_ids, **table.late_strings}
        return Folded(rows, {n: text for text, n in ids.items()}, mapped[0], entities)


def _whole(row: Row, details: dict[int, list[msgspec.Raw]]) -> Row:
    """A row from the task id to the detail, which is complete."""
    number, _, stdout_start, stderr_start = row[COLUMN_DETAIL:]
    packed = details[number // DETAILS_PER_CHUNK][number % DETAILS_PER_CHUNK]
    detail = msgspec.msgpack.decode(packed, type=TaskDetail)
    if detail.log_info is not None:
        starts = (None if start < 0 else start for start in (stdout_start, stderr_start))
        detail.log_info = placed(detail.log_info, *starts)
    values = [None if value == -1 else value or None for value in row[3:COLUMN_DETAIL]]
    return [bytes(row[1]), row[2], *values, msgspec.msgpack.encode(detail)]


def fold(events: list[Json], *, state: str = "ended") -> Folded:
    """Fold events with one mapper."""
    return fold_bodies([lines(events)], state=state)
