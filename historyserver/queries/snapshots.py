"""Read what the live dashboard answered last, as the compiled session keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import zstandard

from historyserver.compiled.opener import CompiledSession

ACTOR_TABLE = "/logical/actors"
STATE_ACTORS = "/api/v0/actors?detail=1&limit=10000"
STATE_NODES = "/api/v0/nodes?detail=1&limit=10000"
STATE_WORKERS = "/api/v0/workers?detail=1&limit=10000"
STATE_OBJECTS = "/api/v0/objects?detail=1&limit=10000"
STATE_RUNTIME_ENVS = "/api/v0/runtime_envs?detail=1&limit=10000"
STATE_PLACEMENT_GROUPS = "/api/v0/placement_groups?detail=1&limit=10000"
JOBS = "/api/jobs/"
NODE_SUMMARY = "/nodes?view=summary"
CLUSTER_STATUS = "/api/cluster_status"
CLUSTER_STATUS_TEXT = "/api/cluster_status?format=1"
CLUSTER_METADATA = "/api/v0/cluster_metadata"
COMPONENT_ACTIVITIES = "/api/component_activities"

MAX_BODY_BYTES = 1 << 30
"""A frame that claims more is refused: no answer of a dashboard is so large."""


def node_detail(node_id: str) -> str:
    """The name of one node's detail answer."""
    return f"/nodes/{node_id}"


def whole(session: CompiledSession, name: str) -> Any:
    """The answer of that name as plain data, or None. Of a collection: with the items left out."""
    return item(session, name, "")


def item(session: CompiledSession, name: str, key: str) -> Any:
    """One item of a collection as plain data, or None."""
    row = (
        session.connection()
        .execute("SELECT body FROM snapshots WHERE name = ? AND item = ?", (name, key))
        .fetchone()
    )
    return None if row is None else _decode(row[0])


def items(session: CompiledSession, name: str) -> Iterator[tuple[str, Any]]:
    """The items of a collection, by id."""
    rows = session.connection().execute(
        "SELECT item, body FROM snapshots WHERE name = ? AND item <> '' ORDER BY item", (name,)
    )
    for key, body in rows:
        yield key, _decode(body)


def taken_ms(session: CompiledSession, name: str) -> int | None:
    """When the answer of that name was taken (its youngest part), or None."""
    row = (
        session.connection()
        .execute("SELECT max(taken_ms) FROM snapshots WHERE name = ?", (name,))
        .fetchone()
    )
    return None if row is None or row[0] is None else int(row[0])


def _decode(body: bytes) -> Any:
    raw = zstandard.ZstdDecompressor().decompress(body, max_output_size=MAX_BODY_BYTES)
    return msgspec.json.decode(raw)
