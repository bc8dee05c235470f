"""Summaries of tasks by who started them.

Of a job, and of all, they are made when the session is compiled. Other filters make the same
tree now, of no more attempts than `MAX_ATTEMPTS`.
"""

from __future__ import annotations

from typing import Any

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.lineage import Lineage
from historyserver.queries.actor_records import actor_records
from historyserver.queries.options import EQUAL, Filter
from historyserver.queries.task_filters import clause, conditions
from historyserver.queries.task_summaries import envelope

MAX_ATTEMPTS = 200_000

_INCOMPLETE = (
    f"Only the first {MAX_ATTEMPTS} task attempts are in this tree. "
    "Filter by job only, or by nothing, for a complete one."
)


def prepared_lineage(session: CompiledSession, filters: tuple[Filter, ...]) -> bytes | None:
    """The answer as it was made when the session was compiled (gzip), if it covers these."""
    job_id = _job_of(filters)
    if job_id is None:
        return None
    row = (
        session.connection()
        .execute("SELECT body FROM rendered WHERE name = ?", (f"lineage:{job_id}",))
        .fetchone()
    )
    return None if row is None else bytes(row[0])


def summary_by_lineage(session: CompiledSession, filters: tuple[Filter, ...]) -> dict[str, Any]:
    """`/api/v0/tasks/summarize?summary_by=lineage`, made now. Raises `QueryError`."""
    wanted = conditions(session, filters, exclude_driver=True)
    where, parameters = clause(session, wanted.all)
    cursor = session.connection().execute(
        "SELECT task_id, name, func, type, state, parent, creation_ms FROM tasks"  # noqa: S608
        f" WHERE {where} ORDER BY row LIMIT ?",
        (*parameters, MAX_ATTEMPTS + 1),
    )
    text = session.string
    lineage, attempts = Lineage(), 0
    for task_id, name, func, kind, state, parent, creation_ms in cursor:
        attempts += 1
        if attempts > MAX_ATTEMPTS:
            break
        lineage.add(
            (
                task_id,
                text(name),
                text(func),
                text(kind),
                text(state) or "NIL",
                parent or b"",
                creation_ms or 0,
            )
        )
    names = {a.actor_id: a.repr_name or a.class_name for a in actor_records(session)}
    warnings = [_INCOMPLETE] if attempts > MAX_ATTEMPTS else None
    return envelope(session, wanted, lineage.summary(names), warnings)


def _job_of(filters: tuple[Filter, ...]) -> str | None:
    """The job whose prepared answer covers these filters; "" for all; None when none does."""
    if not filters:
        return ""
    if len(filters) == 1 and filters[0].key == "job_id" and filters[0].predicate == EQUAL:
        return filters[0].value.lower()
    return None
