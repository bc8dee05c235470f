"""Renders the summaries by lineage, which are too dear to make per request."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from historyserver.folding.lineage import Lineage


def render_lineage(
    rows: Iterable[list[Any]], string_ids: Mapping[str, int], actor_names: Mapping[str, str]
) -> dict[str, bytes]:
    """Make the answers: `lineage:JOB` for each job (hex) and `lineage:` for all.

    Args:
        rows: as `folding.task_rows` makes them; drivers are left out.
        string_ids: what the numbers in rows mean.
        actor_names: what to call actors, by id.

    """
    lineage = Lineage()
    texts: dict[Any, str] = {number: text for text, number in string_ids.items()}
    texts[None] = ""
    driver = string_ids["DRIVER_TASK"]
    for row in rows:
        kind = row[5]
        if kind != driver:
            state, name, func = row[4], row[6], row[7]
            lineage.add(
                (
                    row[1],
                    texts.get(name, name),
                    texts.get(func, func),
                    texts[kind],
                    texts.get(state, state),
                    row[13] or b"",
                    row[20] or 0,
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
    answer = {
        "result": True,
        "msg": "",
        "data": {
            "result": {
                "total": attempts,
                "num_after_truncation": attempts,
                "num_filtered": attempts,
                "result": {"node_id_to_summary": {"cluster": lineage.summary(actor_names, job)}},
                "partial_failure_warning": "",
                "warnings": None,
            }
        },
    }
    return gzip.compress(msgspec.json.encode(answer), compresslevel=1, mtime=0)
