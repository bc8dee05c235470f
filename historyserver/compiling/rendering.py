"""Renders the summaries by lineage, which are too dear to make per request."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from historyserver.compiled.envelopes import listing
from historyserver.folding.lineage import Lineage
from historyserver.folding.task_rows import (
    COLUMN_CREATION,
    COLUMN_FUNC,
    COLUMN_NAME,
    COLUMN_PARENT,
    COLUMN_STATE,
    COLUMN_TASK_ID,
    COLUMN_TYPE,
    Row,
)

lineage_row: Callable[[Row], tuple[Any, ...]] = itemgetter(
    COLUMN_TASK_ID,
    COLUMN_NAME,
    COLUMN_FUNC,
    COLUMN_TYPE,
    COLUMN_STATE,
    COLUMN_PARENT,
    COLUMN_CREATION,
)
"""Takes what the tree needs from a row: far less than the whole row, so it is read fast."""


def render_lineage(
    rows: Iterable[Sequence[Any]], string_ids: Mapping[str, int], actor_names: Mapping[str, str]
) -> dict[str, bytes]:
    """Make the answers: `lineage:JOB` for each job (hex) and `lineage:` for all.

    Args:
        rows: as `lineage_row` makes them; drivers are left out.
        string_ids: what the numbers in rows mean.
        actor_names: what to call actors, by id.

    """
    lineage = Lineage()
    texts: dict[Any, Any] = {number: text for text, number in string_ids.items()}
    texts[0] = ""
    look_up, driver = texts.get, string_ids["DRIVER_TASK"]
    for task_id, name, func, kind, state, parent, created_ms in rows:
        if kind != driver:
            lineage.add(
                (
                    task_id,
                    look_up(name, name),
                    look_up(func, func),
                    texts[kind],
                    look_up(state, state),
                    parent,
                    created_ms,
                )
            )
    jobs = lineage.jobs()
    answers = {f"lineage:{job}": _answer(lineage, actor_names, job) for job in jobs}
    if len(jobs) == 1:
        answers["lineage:"] = answers[f"lineage:{jobs[0]}"]
    else:
        answers["lineage:"] = _answer(lineage, actor_names, "")
    return answers


def _answer(lineage: Lineage, actor_names: Mapping[str, str], job: str) -> bytes:
    attempts = lineage.attempts(job)
    summary = {"node_id_to_summary": {"cluster": lineage.summary(actor_names, job)}}
    answer = listing(summary, total=attempts, filtered=attempts)
    return gzip.compress(msgspec.json.encode(answer), compresslevel=1, mtime=0)
