"""The options of Ray's State API, from the arguments of a request.

The rules are Ray's (`ray/dashboard/state_api_utils.py`, 2.55): a limit of 100 unless told, at
most 10,000; `detail` and `exclude_driver` as 1/0, True/False or true/false; filters as three
parallel lists. `timeout` and `server_timeout_multiplier` are accepted and mean nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000
MAX_FILTERS = 100

EQUAL = "="
NOT_EQUAL = "!="
CONTAINS = "contains"
ORDER = frozenset({"<", "<=", ">", ">="})
PREDICATES = frozenset({EQUAL, NOT_EQUAL, CONTAINS}) | ORDER
"""Ray knows `=` and `!=`. Ours: `contains` for text, the comparisons for numbers."""

_FLAGS = {"1": True, "true": True, "True": True, "0": False, "false": False, "False": False}


class QueryError(ValueError):
    """The options cannot be understood; the message tells the reader what to do instead."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition; several mean all of them."""

    key: str
    predicate: str
    value: str


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What a list request asks for."""

    limit: int = DEFAULT_LIMIT
    detail: bool = False
    exclude_driver: bool = True
    filters: tuple[Filter, ...] = ()
    page_token: str | None = None
    """None: no paging asked for; "" the first page; else what `next_page_token` was."""


def list_options(arguments: Mapping[str, Sequence[str]]) -> ListOptions:
    """Read the options of a list request. Raises `QueryError`.

    `arguments` has the values of each query argument, in the order of the request.
    """
    return ListOptions(
        limit=_limit(_first(arguments, "limit")),
        detail=flag("detail", _first(arguments, "detail"), default=False),
        exclude_driver=flag("exclude_driver", _first(arguments, "exclude_driver"), default=True),
        filters=filters_of(arguments),
        page_token=_first(arguments, "page_token"),
    )


def filters_of(arguments: Mapping[str, Sequence[str]]) -> tuple[Filter, ...]:
    """Read the three parallel lists of filters. Raises `QueryError`."""
    keys = arguments.get("filter_keys", ())
    predicates = arguments.get("filter_predicates", ())
    values = arguments.get("filter_values", ())
    if not len(keys) == len(predicates) == len(values):
        raise QueryError(
            "filter_keys, filter_predicates and filter_values must be given equally often, "
            f"not {len(keys)}, {len(predicates)} and {len(values)} times."
        )
    if len(keys) > MAX_FILTERS:
        raise QueryError(f"At most {MAX_FILTERS} filters can be given, not {len(keys)}.")
    for predicate in predicates:
        if predicate not in PREDICATES:
            raise QueryError(
                f"Unsupported filter predicate {predicate} is given. "
                "Available predicates: =, !=, contains, <, <=, >, >=."
            )
    return tuple(
        Filter(key.lower(), predicate, value)
        for key, predicate, value in zip(keys, predicates, values, strict=True)
    )


def flag(name: str, text: str | None, *, default: bool) -> bool:
    """Read a boolean as Ray writes and reads it. Raises `QueryError`."""
    if text is None:
        return default
    if text not in _FLAGS:
        raise QueryError(f"{name} must be 1, 0, True, true, False or false, not {text[:80]!r}.")
    return _FLAGS[text]


def integer(name: str, text: str) -> int:
    """Read a whole number that fits 64 bits. Raises `QueryError`."""
    try:
        value = int(text)
    except ValueError:
        raise QueryError(f"{name} must be a whole number, not {text[:80]!r}.") from None
    if not -(2**63) <= value < 2**63:
        raise QueryError(f"{name} must fit 64 bits, not {text[:80]!r}.")
    return value


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    limit = integer("limit", text)
    if limit > MAX_LIMIT:
        raise QueryError(
            f"Given limit {limit} exceeds the supported limit {MAX_LIMIT}. Use a lower limit, "
            "or read page by page with page_token."
        )
    if limit < 0:
        raise QueryError(f"limit must not be negative, not {limit}.")
    return limit


def _first(arguments: Mapping[str, Sequence[str]], name: str) -> str | None:
    values = arguments.get(name, ())
    return values[0] if values else None
