"""Summaries of tasks by function and by lineage, exact over all attempts (Ray stops at 10,000)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from historyserver.compiled.envelopes import listing
from historyserver.compiled.opener import CompiledSession
from historyserver.folding.lineage import TOTALS
from historyserver.queries.options import Filter, QueryError
from historyserver.queries.task_filters import (
    TaskConditions,
    clause,
    conditions,
    count,
    counted_clause,
)

_Count = tuple[int | None, int | None, int | None, int]


def summary_by_function(session: CompiledSession, filters: tuple[Filter, ...]) -> dict[str, Any]:
    """`/api/v0/tasks/summarize`. Raises `QueryError`."""
    wanted = conditions(session, filters, exclude_driver=True)
    summary: dict[str, dict[str, Any]] = {}
    totals = dict.fromkeys(TOTALS.values(), 0)
    for func_id, type_id, state_id, attempts in _grouped(session, wanted):
        func, kind = session.string(func_id), session.string(type_id)
        state = session.string(state_id) or "NIL"
        entry = summary.setdefault(
            func, {"func_or_class_name": func, "type": kind, "state_counts": {}}
        )
        counts = entry["state_counts"]
        counts[state] = counts.get(state, 0) + attempts
        if kind in TOTALS:
            totals[TOTALS[kind]] += attempts
    return envelope(session, wanted, {"summary": summary, **totals, "summary_by": "func_name"})


def envelope(
    session: CompiledSession,
    wanted: TaskConditions,
    cluster: dict[str, Any],
    warnings: list[str] | None = None,
) -> dict[str, Any]:
    """The State API envelope around a summary of tasks."""
    total = count(session, wanted.source)
    return listing(
        {"node_id_to_summary": {"cluster": cluster}},
        total=total,
        filtered=count(session, wanted.all) if wanted.rest else total,
        warnings=warnings,
    )


def check_summary_by(summary_by: str | None) -> bool:
    """Whether the lineage is asked for. Raises `QueryError` for what is neither."""
    if summary_by not in (None, "", "func_name", "lineage"):
        raise QueryError('summary_by must be one of "func_name" or "lineage".')
    return summary_by == "lineage"


def _grouped(session: CompiledSession, wanted: TaskConditions) -> Iterable[_Count]:
    """(function, type, state, attempts), in start order of the first attempt."""
    counted = counted_clause(wanted.all)
    if counted is not None:
        where, parameters = counted
        return session.connection().execute(
            "SELECT func, type, state, sum(attempts) FROM task_counts"  # noqa: S608
            f" WHERE {where} GROUP BY func, type, state ORDER BY min(rowid)",
            parameters,
        )
    where, parameters = clause(session, wanted.all)
    rows = session.connection().execute(
        f"SELECT func, type, state FROM tasks WHERE {where} ORDER BY row",  # noqa: S608
        parameters,
    )
    # Counted here: GROUP BY would sort all rows first.
    return ((func, kind, state, n) for (func, kind, state), n in Counter(rows).items())
