"""Actors as folded from events, joined with what the dashboard last said of them.

Who is right: events for state, times, address, restarts and death, since they are complete; the
snapshots for what no event tells (executed tasks, memory, used resources), and for actors whose
events were lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import ActorRecord
from historyserver.queries import snapshots
from storage import endpoints

_decode = msgspec.msgpack.Decoder(ActorRecord).decode


@dataclass(frozen=True, slots=True)
class ActorSources:
    """All that is known of one actor."""

    actor_id: str
    record: ActorRecord | None
    table: dict[str, Any]
    """Its entry in `/logical/actors`; {} when no snapshot has it."""
    state: dict[str, Any]
    """Its row in `/api/v0/actors`; {} when no snapshot has it."""


def actor_records(session: CompiledSession) -> Iterator[ActorRecord]:
    """The actors that events tell of, in start order."""
    for (body,) in session.connection().execute("SELECT body FROM actors ORDER BY row"):
        yield _decode(body)


def all_actors(session: CompiledSession) -> list[ActorSources]:
    """Every actor: those of events in start order, then those that only snapshots have."""
    table = dict(snapshots.items(session, endpoints.ACTOR_TABLE))
    state = dict(snapshots.items(session, endpoints.ACTORS))
    found = {
        record.actor_id: _joined(
            record, table.get(record.actor_id) or {}, state.get(record.actor_id) or {}
        )
        for record in actor_records(session)
    }
    for actor_id in [*table, *state]:
        if actor_id not in found:
            found[actor_id] = ActorSources(
                actor_id, None, table.get(actor_id) or {}, state.get(actor_id) or {}
            )
    return list(found.values())


def actor_ids(session: CompiledSession) -> list[str]:
    """The ids of every actor, sorted."""
    rows = session.connection().execute(
        "SELECT actor_id FROM actors UNION"
        " SELECT item FROM snapshots WHERE name IN (?, ?) AND item <> '' ORDER BY 1",
        (endpoints.ACTOR_TABLE, endpoints.ACTORS),
    )
    return [row[0] for row in rows]


def one_actor(session: CompiledSession, actor_id: str) -> ActorSources | None:
    """One actor, or None when the session never had it."""
    row = (
        session.connection()
        .execute("SELECT body FROM actors WHERE actor_id = ?", (actor_id,))
        .fetchone()
    )
    table = snapshots.item(session, endpoints.ACTOR_TABLE, actor_id) or {}
    state = snapshots.item(session, endpoints.ACTORS, actor_id) or {}
    if row is not None:
        return _joined(_decode(row[0]), table, state)
    return ActorSources(actor_id, None, table, state) if table or state else None


def actors_on(session: CompiledSession, node_id: str) -> list[ActorSources]:
    """The actors whose last place was this node."""
    rows = session.connection().execute(
        "SELECT actor_id FROM actors WHERE node_id = ? ORDER BY row", (node_id,)
    )
    found = [one_actor(session, row[0]) for row in rows.fetchall()]
    return [actor for actor in found if actor is not None]


def _joined(record: ActorRecord, table: dict[str, Any], state: dict[str, Any]) -> ActorSources:
    """An actor whose death only a snapshot tells was closed for want of its event: undo that."""
    if record.closed_state and "DEAD" in (table.get("state"), state.get("state")):
        record = msgspec.structs.replace(record, death_cause_json="", end_ns=0, closed_state="")
    return ActorSources(record.actor_id, record, table, state)
