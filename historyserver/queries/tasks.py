"""Lists of task attempts.

Rows come in start order, which is how they lie in the file, so a page is a range; the attempts
of one task, asked for by its id, come latest first (see `_order`).

Our paging: give `page_token=` (empty for the first page) and the answer's `data.next_page_token`
names the next page, until it is null. Ray's clients never see it (they read `data.result` only).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from historyserver.compiled.opener import CompiledSession
from historyserver.queries.options import EQUAL, Filter, ListOptions, QueryError
from historyserver.queries.task_filters import TaskConditions, clause, conditions, count
from historyserver.queries.task_rows import DETAIL_COLUMNS, LISTED_COLUMNS, TaskRows

_CHUNK_ROWS = 500
"""Rows that are objects at one time; the rest of an answer is JSON already."""

_TOKEN = re.compile(r"row-[0-9a-f]{1,15}\Z")

_encode = msgspec.json.Encoder().encode


def tasks_json(session: CompiledSession, options: ListOptions) -> bytes:
    """`/api/v0/tasks` as the body to send. Raises `QueryError`."""
    return _body(session, options)[1]


def task_json(session: CompiledSession, task_id: str) -> bytes | None:
    """All attempts of one task, in detail, as the body to send; None when there is no such task.

    Raises `QueryError` for what cannot be a task's id.
    """
    of_task = (Filter("task_id", EQUAL, task_id),)
    options = ListOptions(detail=True, exclude_driver=False, filters=of_task)
    returned, body = _body(session, options)
    return body if returned else None


def _body(session: CompiledSession, options: ListOptions) -> tuple[int, bytes]:
    """How many rows, and the whole answer."""
    wanted = conditions(session, options.filters, exclude_driver=options.exclude_driver)
    after = _row_of(options.page_token)
    parts: list[bytes] = []
    last_row, returned = after, 0
    for last_row, size, part in _chunks(session, wanted, options, after):  # noqa: B007
        parts += (part, b",")
        returned += size
    total, filtered = _counts(session, wanted, returned if _is_whole(options, returned) else None)
    head = (
        b'{"result":true,"msg":"","data":{"result":{"total":%d,"num_after_truncation":%d,'
        b'"num_filtered":%d,"result":[' % (total, total, filtered)
    )
    tail = b'],"partial_failure_warning":"","warnings":null}%b}}' % _next_page(
        options, last_row if 0 < returned == options.limit else None
    )
    return returned, b"".join((head, *parts[:-1], tail))


def _chunks(
    session: CompiledSession, wanted: TaskConditions, options: ListOptions, after: int
) -> Iterator[tuple[int, int, bytes]]:
    """(row number of the last, how many, JSON items without brackets), chunk by chunk."""
    where, parameters = clause(session, wanted.all)
    columns = DETAIL_COLUMNS if options.detail else LISTED_COLUMNS
    order = _order(session, options)
    cursor = session.connection().execute(
        f"SELECT row, {columns} FROM tasks WHERE row > ? AND {where} ORDER BY {order} LIMIT ?",  # noqa: S608
        (after, *parameters, options.limit),
    )
    rows = TaskRows(session)
    while batch := cursor.fetchmany(_CHUNK_ROWS):
        made: list[Any] = (
            rows.detailed(row[1:] for row in batch)
            if options.detail
            else rows.listed(row[1:] for row in batch)
        )
        yield batch[-1][0], len(batch), _encode(made)[1:-1]


def _order(session: CompiledSession, options: ListOptions) -> str:
    """Start order; of one task the attempt first that answers for it.

    Ray's page of a task asks for one row (`limit=1`). Ray itself answers with any attempt
    (measured); here it is the latest, which tells how the task went, and for an actor's creation
    the first, since Ray forgets those of restarts.
    """
    of_one_task = any(f.key == "task_id" and f.predicate == EQUAL for f in options.filters)
    if not of_one_task or options.page_token is not None:
        return "row"
    creation = session.string_id("ACTOR_CREATION_TASK") or 0
    return f"CASE type WHEN {creation} THEN attempt ELSE -attempt END"


def _is_whole(options: ListOptions, returned: int) -> bool:
    """Whether what was returned is all that there is."""
    return not options.page_token and returned < options.limit


def _counts(
    session: CompiledSession, wanted: TaskConditions, filtered: int | None
) -> tuple[int, int]:
    """Ray's total and num_filtered. What a short page has told already is not counted again."""
    if not wanted.rest:
        total = count(session, wanted.source) if filtered is None else filtered
        return total, total
    total = count(session, wanted.source)
    return total, count(session, wanted.all) if filtered is None else filtered


def _row_of(token: str | None) -> int:
    if not token:
        return 0
    if not _TOKEN.match(token):
        raise QueryError(f"page_token {token[:80]!r} is not one that this server gave.")
    return int(token[4:], 16)


def _next_page(options: ListOptions, last_row: int | None) -> bytes:
    if options.page_token is None:
        return b""
    if last_row is None:
        return b',"next_page_token":null'
    return b',"next_page_token":"row-%x"' % last_row
