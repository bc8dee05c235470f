"""Filter, sort and cut lists that fit in memory, by the rules of Ray's State API.

For tasks the same rules are SQL (`task_filters`); actors, nodes, jobs and the like are few.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from historyserver.compiled.envelopes import listing
from historyserver.queries.columns import Columns
from historyserver.queries.fitting import number
from historyserver.queries.options import CONTAINS, EQUAL, NOT_EQUAL, Filter, ListOptions, flag

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def answer_list(
    rows: Iterable[Mapping[str, Any]],
    options: ListOptions,
    columns: Columns,
    *,
    sort_key: Callable[[Mapping[str, Any]], Any],
    kept: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole State API answer for a resource. Raises `QueryError`.

    `rows` are all of the resource's, with all columns that are known; `sort_key` is Ray's order.
    `kept` is the envelope of a snapshot, when Ray's own totals and warnings are in it.
    """
    everything = list(rows)
    chosen = matching(everything, options.filters, columns)
    chosen.sort(key=sort_key)
    shown = columns.shown(detail=options.detail)
    result = [{name: row.get(name) for name in shown} for row in chosen[: options.limit]]
    return listing(
        result,
        total=len(everything),
        filtered=len(chosen),
        kept=kept,
    )


def matching(
    rows: Iterable[Mapping[str, Any]], filters: Iterable[Filter], columns: Columns
) -> list[Mapping[str, Any]]:
    """The rows that pass all filters. Raises `QueryError`."""
    wanted = tuple(filters)
    columns.check(wanted)
    return [row for row in rows if all(_passes(row.get(f.key), f, columns) for f in wanted)]


def _passes(value: Any, wanted: Filter, columns: Columns) -> bool:
    target: Any = wanted.value
    if wanted.key in columns.numbers:
        target = int(wanted.value)
        value = (int(value) if isinstance(value, str) else value) if number(value) else None
    elif wanted.key in columns.flags:
        target = flag(wanted.key, wanted.value, default=False)
    elif value is not None:
        value, target = _text(value).casefold(), wanted.value.casefold()
    if wanted.predicate == EQUAL:
        return bool(value == target)
    if wanted.predicate == NOT_EQUAL:
        return bool(value != target)
    if value is None:
        return False
    if wanted.predicate == CONTAINS:
        return target in value
    return _COMPARE[wanted.predicate](value, target)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
