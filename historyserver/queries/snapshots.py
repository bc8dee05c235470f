"""Read what the live dashboard answered last, as the compiled session keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import zstandard

from historyserver.compiled.opener import CompiledSession
from historyserver.queries import fitting
from historyserver.queries.columns import Columns
from storage import endpoints

_KINDS = {
    endpoints.ACTOR_TABLE: fitting.ACTOR_TABLE,
    endpoints.ACTORS: fitting.STATE_ACTORS,
    endpoints.NODES: fitting.STATE_NODES,
    endpoints.WORKERS: fitting.STATE_WORKERS,
    endpoints.PLACEMENT_GROUPS: fitting.PLACEMENT_GROUPS,
    endpoints.NODE_SUMMARY: fitting.NODE_SUMMARY,
    endpoints.JOBS: fitting.JOBS,
}
"""Of the items of collections."""

MAX_BODY_BYTES = 1 << 30
"""A frame that claims more is refused: no answer of a dashboard is so large."""


def whole(session: CompiledSession, name: str) -> dict[str, Any] | None:
    """The answer of that name as plain data, or None. Of a collection: with the items left out.

    All answers of the dashboard that are kept whole are JSON objects; what is not one is none.
    """
    return item(session, name, "")


def item(session: CompiledSession, name: str, key: str) -> dict[str, Any] | None:
    """One item of a collection as plain data, or None."""
    row = (
        session.connection()
        .execute("SELECT body FROM snapshots WHERE name = ? AND item = ?", (name, key))
        .fetchone()
    )
    return None if row is None else fitting.fitted(_decode(row[0]), _kinds(name, key))


def items(session: CompiledSession, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The items of a collection, by id."""
    rows = session.connection().execute(
        "SELECT item, body FROM snapshots WHERE name = ? AND item <> '' ORDER BY item", (name,)
    )
    for key, body in rows:
        value = fitting.fitted(_decode(body), _kinds(name, key))
        if value is not None:
            yield key, value


def rows_of(
    body: Any, columns: Columns, kinds: Mapping[str, Callable[[Any], bool]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows, with every listed column, and the envelope of an answer that was kept whole."""
    try:
        inner = body["data"]["result"]
        rows = inner["result"]
    except (TypeError, KeyError):
        return [], {}
    if not isinstance(rows, list):
        return [], {}
    absent = dict.fromkeys(columns.listed)
    known = (fitting.fitted(row, kinds) for row in rows)
    return [absent | row for row in known if row is not None], inner


def _kinds(name: str, key: str) -> Mapping[str, Callable[[Any], bool]]:
    return _KINDS.get(name, {}) if key else {}


def _decode(body: bytes) -> Any:
    raw = zstandard.ZstdDecompressor().decompress(body, max_output_size=MAX_BODY_BYTES)
    return msgspec.json.decode(raw)
