"""Filters on tasks, as SQL that uses the compiled session's indices.

Rules (Ray 2.55): text compares without case; an absent value never equals and always differs;
attempts without a definition are not listed; driver tasks are listed only when asked for.
`total` counts what Ray's GCS lets through (it filters these six by itself: actor, job, task,
name, state, and the driver), `num_filtered` what passes all filters.

Speed at 100k attempts and more comes from three things decided here. Which index to use, from
bounded counts: without statistics SQLite cannot know that a job filter matches everything and a
worker filter nothing (a leading `+` keeps it off a column's index). Conditions that every
attempt meets are left out, so that an index alone can answer. The few attempts that are never
listed (drivers, those without a definition) are excluded by their row numbers, for the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from historyserver.compiled.opener import CompiledSession
from historyserver.queries import task_facts
from historyserver.queries.columns import TASKS
from historyserver.queries.options import CONTAINS, EQUAL, NOT_EQUAL, Filter, flag

SOURCE_KEYS = frozenset({"actor_id", "job_id", "task_id", "name", "state"})
DRIVER_TASK = "DRIVER_TASK"

_TEXT = {
    "name": "name",
    "func_or_class_name": "func",
    "language": "language",
    "type": "type",
    "state": "state",
    "error_type": "error_type",
    "job_id": "job",
    "node_id": "node",
    "worker_id": "worker",
    "actor_id": "actor",
    "placement_group_id": "placement_group",
}
_BLOBS = {"task_id": "task_id", "parent_task_id": "parent"}
_NUMBERS = {
    "attempt_number": "attempt",
    "worker_pid": "pid",
    "creation_time_ms": "creation_ms",
    "start_time_ms": "start_ms",
    "end_time_ms": "end_ms",
}
_INDEXED = frozenset(
    {
        "task_id", "state", "name", "func", "job", "node", "worker", "pid", "actor", "parent",
        "error_type",
    }
)  # fmt: skip
_COUNTED = frozenset({"job", "func", "type", "state"})
"""The columns of `task_counts`."""
_FREE_TEXT = frozenset({"name", "func"})
"""Columns whose values have no one case: ids are lower, Ray's enumerations upper."""
_UPPER = frozenset({"state", "type", "error_type", "language"})

_DENSE_ROWS = 3000
"""From so many matches on, reading all rows in order beats jumping through an index."""
_MOST_IDS = 500
_MOST_HIDDEN = 200
"""Up to so many attempts that are not listed are excluded by row number."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a WHERE clause."""

    column: str
    sql: str
    """With `{c}` for the column."""
    parameters: tuple[object, ...] = ()
    is_equality: bool = False


@dataclass(frozen=True, slots=True)
class TaskConditions:
    """What a request asks of tasks: `source` is the part that Ray's `total` counts."""

    source: tuple[Term, ...]
    rest: tuple[Term, ...]

    @property
    def all(self) -> tuple[Term, ...]:
        """Every condition."""
        return self.source + self.rest


def conditions(
    session: CompiledSession, filters: Iterable[Filter], *, exclude_driver: bool
) -> TaskConditions:
    """Turn filters into conditions. Raises `QueryError`."""
    wanted = tuple(filters)
    TASKS.check(wanted)
    source = [_listed(session, exclude_driver=exclude_driver)]
    rest: list[Term] = []
    for item in wanted:
        (source if item.key in SOURCE_KEYS else rest).append(_term(session, item))
    return TaskConditions(tuple(source), tuple(rest))


def count(session: CompiledSession, terms: tuple[Term, ...]) -> int:
    """How many attempts meet all terms, exactly."""
    counted = counted_clause(terms)
    if counted is not None:
        where, parameters = counted
        sql = f"SELECT coalesce(sum(attempts), 0) FROM task_counts WHERE {where}"  # noqa: S608
    else:
        where, parameters = clause(session, terms)
        sql = f"SELECT count(*) FROM tasks WHERE {where}"  # noqa: S608
    row = session.connection().execute(sql, parameters).fetchone()
    return int(row[0])


def counted_clause(terms: tuple[Term, ...]) -> tuple[str, tuple[object, ...]] | None:
    """The WHERE clause on `task_counts`, when that table can tell; else None."""
    if any(term.column not in _COUNTED for term in terms):
        return None
    return _where(terms, frozenset())


def clause(session: CompiledSession, terms: tuple[Term, ...]) -> tuple[str, tuple[object, ...]]:
    """The WHERE clause and its parameters, with the best index left usable."""
    terms = tuple(t for term in terms for t in _simplified(session, term))
    best: str | None = None
    fewest = _DENSE_ROWS
    for term in terms:
        if not (term.is_equality and term.column in _INDEXED):
            continue
        rows = _bounded_count(session, term)
        if rows < fewest:
            best, fewest = term.column, rows
    blocked = _INDEXED - ({best} if best else set())
    return _where(terms, blocked)


def _simplified(session: CompiledSession, term: Term) -> tuple[Term, ...]:
    """The same condition in a cheaper form; nothing when every attempt meets it."""
    if term.column not in _COUNTED:
        return (term,)
    refused = (
        session.connection()
        .execute(
            "SELECT coalesce(sum(attempts), 0) FROM task_counts"  # noqa: S608
            f" WHERE NOT coalesce({term.sql.format(c=term.column)}, 0)",
            term.parameters,
        )
        .fetchone()[0]
    )
    if refused == 0:
        return ()
    if term.column == "type" and not term.is_equality and refused <= _MOST_HIDDEN:
        rows = task_facts.rows_but(session, term.sql.format(c=term.column), term.parameters)
        return (Term("row", f"row NOT IN ({', '.join('?' * len(rows))})", rows),)
    return (term,)


def _listed(session: CompiledSession, *, exclude_driver: bool) -> Term:
    driver = session.string_id(DRIVER_TASK) if exclude_driver else None
    if driver is None:
        return Term("type", "{c} IS NOT NULL")
    return Term("type", "{c} <> ?", (driver,))  # NULL <> x is not true either


def _term(session: CompiledSession, item: Filter) -> Term:
    if item.key == "is_debugger_paused":
        wanted = int(flag(item.key, item.value, default=False))
        comparison = "IS" if item.predicate == EQUAL else "IS NOT"
        return Term("debugger_paused", f"{{c}} {comparison} ?", (wanted,))
    if item.key in _NUMBERS:
        return _number(_NUMBERS[item.key], item)
    if item.key in _BLOBS:
        return _blob(_BLOBS[item.key], item)
    return _text(session, _TEXT[item.key], item)


def _number(column: str, item: Filter) -> Term:
    comparison = {EQUAL: "=", NOT_EQUAL: "IS NOT"}.get(item.predicate, item.predicate)
    is_equality = item.predicate == EQUAL
    return Term(column, f"{{c}} {comparison} ?", (int(item.value),), is_equality=is_equality)


def _blob(column: str, item: Filter) -> Term:
    if item.predicate == CONTAINS:
        return Term(column, "instr(lower(hex({c})), ?) > 0", (item.value.lower(),))
    try:
        value = bytes.fromhex(item.value)
    except ValueError:
        value = b""
    if item.predicate == EQUAL:
        return Term(column, "{c} = ?", (value,), is_equality=True)
    return Term(column, "{c} IS NOT ?", (value,))


def _text(session: CompiledSession, column: str, item: Filter) -> Term:
    if item.predicate == CONTAINS:
        ids = "SELECT id FROM strings WHERE instr(lower(value), ?) > 0"
        return Term(column, f"{{c}} IN ({ids})", (item.value.lower(),))
    found = _ids(session, column, item.value)
    marks = ", ".join("?" * len(found))
    if item.predicate == NOT_EQUAL:
        if not found:
            return Term(column, "1")
        return Term(column, f"({{c}} IS NULL OR {{c}} NOT IN ({marks}))", found)
    if not found:
        return Term(column, "0")
    if len(found) == 1:
        return Term(column, "{c} = ?", found, is_equality=True)
    return Term(column, f"{{c}} IN ({marks})", found)


def _ids(session: CompiledSession, column: str, value: str) -> tuple[int, ...]:
    """The dictionary's ids of a value, whatever its case."""
    if column in _FREE_TEXT:
        rows = session.connection().execute(
            "SELECT id FROM strings WHERE value = ? COLLATE NOCASE LIMIT ?", (value, _MOST_IDS)
        )
        return tuple(row[0] for row in rows)
    found = session.string_id(value.upper() if column in _UPPER else value.lower())
    return () if found is None else (found,)


def _bounded_count(session: CompiledSession, term: Term) -> int:
    sql = (
        f"SELECT count(*) FROM (SELECT 1 FROM tasks WHERE {term.sql.format(c=term.column)}"  # noqa: S608
        f" LIMIT {_DENSE_ROWS})"
    )
    return int(session.connection().execute(sql, term.parameters).fetchone()[0])


def _where(terms: tuple[Term, ...], blocked: frozenset[str]) -> tuple[str, tuple[object, ...]]:
    parts = [
        term.sql.format(c=f"+{term.column}" if term.column in blocked else term.column)
        for term in terms
    ]
    return " AND ".join(parts) or "1", tuple(p for term in terms for p in term.parameters)
