"""Search, sort and pages over the list of sessions. Pure: entries in, one page out.

Pages are keyset pages: the cursor holds the sort value and the id of the last row, so a list
that grows meanwhile neither repeats nor skips rows.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from historyserver.catalogue.entry import SessionEntry

DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000


class SortKey(StrEnum):
    """What the list can be ordered by."""

    START = "start"
    NAME = "name"
    DURATION = "duration"
    SIZE = "size"
    STATE = "state"


class PagingError(ValueError):
    """The request for a page cannot be met; the message says why, fit for a client."""


class _Cursor(msgspec.Struct, array_like=True, frozen=True):
    sort: str
    descending: bool
    absent: bool
    value: int | str
    id: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the sessions that match."""

    entries: tuple[SessionEntry, ...]
    total: int
    """How many match in all."""
    next_cursor: str | None
    """Ask with this for what follows; None at the end."""


_VALUES: dict[SortKey, Callable[[SessionEntry], int | str | None]] = {
    SortKey.START: lambda entry: entry.start_ms,
    SortKey.NAME: lambda entry: f"{entry.ref.namespace}/{entry.ref.name}/{entry.ref.cluster}",
    SortKey.DURATION: lambda entry: entry.duration_ms,
    SortKey.SIZE: lambda entry: entry.size_bytes,
    SortKey.STATE: lambda entry: entry.state.value,
}


def page(
    entries: Sequence[SessionEntry],
    *,
    search: str = "",
    sort: str = SortKey.START.value,
    descending: bool = True,
    limit: int = DEFAULT_LIMIT,
    cursor: str = "",
) -> Page:
    """One page of the sessions that match.

    Args:
        entries: all sessions.
        search: words that must all occur, whatever their case, in namespace, cluster, owner
            kind, owner, session or state.
        sort: a `SortKey`. Sessions where the value is not known come last.
        descending: largest first.
        limit: most rows, 1 to `MAX_LIMIT`.
        cursor: `next_cursor` of the page before; with the same sort and order.

    Raises:
        PagingError: unknown sort key, limit out of range, or a cursor that is none.

    """
    if sort not in list(SortKey):
        raise PagingError(f"cannot sort by {sort[:40]!r}; use one of {', '.join(SortKey)}")
    if not 1 <= limit <= MAX_LIMIT:
        raise PagingError(f"limit must be from 1 to {MAX_LIMIT}")
    value_of = _VALUES[SortKey(sort)]
    matching = [entry for entry in entries if matches(entry, search)]
    order = sorted(matching, key=lambda entry: entry.id)
    known = [entry for entry in order if value_of(entry) is not None]
    known.sort(key=lambda entry: _present(value_of(entry)), reverse=descending)
    rows = known + [entry for entry in order if value_of(entry) is None]
    if cursor:
        last = _decode(cursor, sort=sort, descending=descending)
        rows = [entry for entry in rows if _follows(entry, value_of(entry), last)]
    shown, more = rows[:limit], len(rows) > limit
    following = _encode(shown[-1], value_of(shown[-1]), sort, descending) if more else None
    return Page(tuple(shown), len(matching), following)


def matches(entry: SessionEntry, search: str) -> bool:
    """Whether every word of the search occurs in what the list shows of the session."""
    if not search.strip():
        return True
    ref = entry.ref
    text = " ".join(
        (
            ref.namespace,
            ref.cluster,
            ref.owner_kind,
            ref.owner_name,
            ref.session,
            entry.state.value,
        )
    ).lower()
    return all(word in text for word in search.lower().split())


def _present(value: int | str | None) -> int | str:
    return 0 if value is None else value


def _follows(entry: SessionEntry, value: int | str | None, last: _Cursor) -> bool:
    if (value is None) != last.absent:
        return value is None
    if value is None or value == last.value:
        return entry.id > last.id
    smaller = str(value) < str(last.value)
    if isinstance(value, int) and isinstance(last.value, int):
        smaller = value < last.value
    return smaller is last.descending


def _encode(entry: SessionEntry, value: int | str | None, sort: str, descending: bool) -> str:
    last = _Cursor(sort, descending, value is None, _present(value), entry.id)
    return base64.urlsafe_b64encode(msgspec.json.encode(last)).decode().rstrip("=")


def _decode(cursor: str, *, sort: str, descending: bool) -> _Cursor:
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        last = msgspec.json.decode(data, type=_Cursor)
    except (binascii.Error, ValueError) as error:
        raise PagingError("the cursor is not one that this list gave") from error
    if last.sort != sort or last.descending is not descending:
        raise PagingError("the cursor belongs to another order; ask without it")
    return last
