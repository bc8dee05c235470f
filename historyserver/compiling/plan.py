"""Prepares the reduce step: one numbering of strings and shapes for all processes."""

from __future__ import annotations

import msgspec

from historyserver.compiling.entities import Entities
from historyserver.compiling.map_reduce import MapResult, ReducePlan
from historyserver.folding.closing import ERROR_TYPE, JOB_ENDED_ERROR_TYPE
from historyserver.folding.shapes import Shape
from historyserver.folding.states import STATES
from historyserver.folding.task_rows import NO_ACTOR, SHAPE_STRINGS, RowContext

TASK_TYPES = ("NORMAL_TASK", "ACTOR_CREATION_TASK", "ACTOR_TASK", "DRIVER_TASK")


def make_plan(mapped: dict[int, MapResult], entities: Entities, session: str) -> ReducePlan:
    """Number every string and every shape that attempts refer to."""
    shapes = sorted(
        {shape for result in mapped.values() for shape in result.shapes},
        key=msgspec.msgpack.encode,
    )
    numbers = {shape: number for number, shape in enumerate(shapes)}
    session_dirs = {folder for result in mapped.values() for folder in result.session_dirs}
    context = RowContext(
        string_ids=_string_ids(mapped, shapes, entities),
        session_dir=max(session_dirs, default=f"/tmp/ray/{session}"),  # noqa: S108 - Ray's own
        closing=entities.closing,
        incarnations=entities.incarnations,
        job_ends_ns=entities.job_ends_ns,
    )
    return ReducePlan(
        context,
        shapes,
        {mapper: [numbers[shape] for shape in result.shapes] for mapper, result in mapped.items()},
    )


def _string_ids(
    mapped: dict[int, MapResult], shapes: list[Shape], entities: Entities
) -> dict[str, int]:
    texts = dict.fromkeys((*STATES, *TASK_TYPES, ERROR_TYPE, JOB_ENDED_ERROR_TYPE))
    for shape in shapes:
        texts.update(dict.fromkeys(msgspec.structs.astuple(shape)[:SHAPE_STRINGS]))
    found: set[str] = set()
    for result in mapped.values():
        found |= result.strings
        found |= {tail[12:].hex() for tail in result.tails}
        found |= {tail.hex() for tail in result.tails if tail[:12] != NO_ACTOR}
    for lives in entities.incarnations.values():
        found |= {text for life in lives for text in (life.node, life.worker)}
    texts.update(dict.fromkeys(sorted(found)))
    texts.pop("", None)
    return {text: number for number, text in enumerate(texts, start=1)}
