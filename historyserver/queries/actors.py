"""Actors in the shapes of Ray's two APIs: the State API and the dashboard's actor table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from historyserver.compiled.envelopes import listing, success
from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import ActorRecord
from historyserver.queries import death_causes, snapshots
from historyserver.queries.actor_records import (
    ActorSources,
    actor_ids,
    all_actors,
    one_actor,
)
from historyserver.queries.columns import ACTORS
from historyserver.queries.matching import answer_list, matching
from historyserver.queries.options import Filter, ListOptions
from historyserver.queries.session_end import ended_message, is_over
from storage import endpoints

_UNBORN = frozenset({"DEPENDENCIES_UNREADY", "PENDING_CREATION"})
"""States in which GCS has not stamped an actor yet."""

_OF_PLACEMENT_GROUP = re.compile(r"(?P<name>.+)_group_(?:\d+_)?[0-9a-f]{36}\Z")


def list_actors(session: CompiledSession, options: ListOptions) -> dict[str, Any]:
    """`/api/v0/actors`. Raises `QueryError`."""
    if not options.filters:
        return _first_actors(session, options)
    rows = (state_row(session, actor) for actor in all_actors(session))
    return answer_list(rows, options, ACTORS, sort_key=lambda row: row["actor_id"])


def _first_actors(session: CompiledSession, options: ListOptions) -> dict[str, Any]:
    """The list without filters: only what is shown is read."""
    ids = actor_ids(session)
    shown = ACTORS.shown(detail=options.detail)
    found = (one_actor(session, actor_id) for actor_id in ids[: options.limit])
    rows = [state_row(session, actor) for actor in found if actor is not None]
    result = [{name: row.get(name) for name in shown} for row in rows]
    return listing(result, total=len(ids), filtered=len(ids))


def summarize_actors(session: CompiledSession, filters: tuple[Filter, ...]) -> dict[str, Any]:
    """`/api/v0/actors/summarize`. Raises `QueryError`."""
    rows = [state_row(session, actor) for actor in all_actors(session)]
    chosen = matching(rows, filters, ACTORS)
    summary: dict[str, dict[str, Any]] = {}
    for row in chosen:
        name = row["class_name"]
        counts = summary.setdefault(name, {"class_name": name, "state_counts": {}})["state_counts"]
        counts[row["state"]] = counts.get(row["state"], 0) + 1
    cluster = {"summary": summary, "total_actors": len(chosen), "summary_by": "class"}
    return listing(
        {"node_id_to_summary": {"cluster": cluster}}, total=len(rows), filtered=len(chosen)
    )


def actor_table(session: CompiledSession, ids: Iterable[str] | None = None) -> dict[str, Any]:
    """`/logical/actors`; with ids only those, null for one that never was (as Ray)."""
    if ids is None:
        found = {a.actor_id: table_entry(session, a) for a in all_actors(session)}
        return success("All actors fetched.", {"actors": found})
    chosen = {actor_id: one_actor(session, actor_id) for actor_id in ids}
    entries = {i: None if a is None else table_entry(session, a) for i, a in chosen.items()}
    return success("All actors fetched.", {"actors": entries})


def actor_detail(session: CompiledSession, actor_id: str) -> dict[str, Any]:
    """`/logical/actors/{id}`; an unknown actor is null, as in Ray."""
    actor = one_actor(session, actor_id.lower())
    detail = None if actor is None else table_entry(session, actor)
    return success("Actor details fetched.", {"detail": detail})


def state_row(session: CompiledSession, actor: ActorSources) -> dict[str, Any]:
    """One actor with all columns of the State API."""
    row: dict[str, Any] = {
        "num_restarts_due_to_lineage_reconstruction": "0",
        "num_restarts_due_to_node_preemption": "0",
        **actor.state,
    }
    record = actor.record
    if record is None:
        if not actor.state:
            row |= _state_from_table(actor)
        row |= {"actor_id": actor.actor_id, "state": row.get("state") or ""}
        return _closed_state_row(session, row | {"class_name": row.get("class_name") or ""})
    cause = death_causes.parsed(record.death_cause_json)
    row |= {
        "actor_id": record.actor_id,
        "class_name": record.class_name or row.get("class_name") or "",
        "state": record.state or row.get("state") or "",
        "job_id": record.job_id or row.get("job_id"),
        "name": record.name or row.get("name") or "",
        "node_id": record.node_id or row.get("node_id"),
        "pid": record.pid or row.get("pid") or 0,
        "ray_namespace": record.ray_namespace or row.get("ray_namespace") or "",
        "serialized_runtime_env": record.serialized_runtime_env
        or row.get("serialized_runtime_env")
        or "{}",
        "required_resources": record.required_resources or row.get("required_resources") or {},
        "death_cause": death_causes.state_api_form(cause) or row.get("death_cause"),
        "is_detached": record.is_detached or bool(row.get("is_detached")),
        "placement_group_id": record.placement_group_id or row.get("placement_group_id"),
        "repr_name": record.repr_name or row.get("repr_name") or "",
        "num_restarts": _restarts(record, row.get("num_restarts")),
        "call_site": record.call_site or row.get("call_site"),
        "label_selector": record.label_selector or row.get("label_selector") or {},
        "fallback_strategy": row.get("fallback_strategy"),
    }
    return row


def table_entry(session: CompiledSession, actor: ActorSources) -> dict[str, Any]:
    """One actor as the dashboard's table shows it."""
    entry: dict[str, Any] = {"gpus": [], "processStats": None, "mem": [], **actor.table}
    record = actor.record
    if record is None:
        if not actor.table:
            entry |= _table_from_state(actor)
        return _closed_table_entry(session, entry)
    if not actor.table:
        entry["mem"] = _memory_of(session, record.node_id)
    cause = death_causes.parsed(record.death_cause_json)
    name = record.class_name or entry.get("className") or ""
    detail = death_causes.exit_detail(cause)
    entry |= {
        "actorId": record.actor_id,
        "jobId": record.job_id or entry.get("jobId"),
        "address": _address(record, entry.get("address")),
        "name": record.name or entry.get("name") or "",
        "className": name,
        "state": record.state or entry.get("state") or "",
        "numRestarts": _restarts(record, entry.get("numRestarts")),
        "pid": record.pid or entry.get("pid") or 0,
        "reprName": record.repr_name or entry.get("reprName") or "",
        "labelSelector": record.label_selector or entry.get("labelSelector") or {},
        "actorClass": name,
        "exitDetail": detail if detail != "-" else entry.get("exitDetail") or "-",
        "requiredResources": _plain_resources(
            record.required_resources or entry.get("requiredResources") or {}
        ),
        **_times(record, actor.table),
    }
    if record.placement_group_id:
        entry["placementGroupId"] = record.placement_group_id
    if record.call_site:
        entry["callSite"] = record.call_site
    return entry


def _address(record: ActorRecord, known: Any) -> dict[str, Any]:
    old: dict[str, Any] = known if isinstance(known, dict) else {}
    return {
        "nodeId": record.node_id or old.get("nodeId") or "",
        "ipAddress": record.ip_address or old.get("ipAddress") or "",
        "port": record.port or old.get("port") or 0,
        "workerId": record.worker_id or old.get("workerId") or "",
    }


def _restarts(record: ActorRecord, known: Any) -> str:
    """Ray prints 64-bit numbers as text. Lost events can only make our count too small."""
    return str(max(record.num_restarts, int(known or 0)))


def _times(record: ActorRecord, table: dict[str, Any]) -> dict[str, Any]:
    """When the actor started, ended and last changed.

    Events have their own time, some milliseconds after GCS's. A snapshot of the same life of the
    actor has GCS's, and so does one of the same end.
    """
    latest = max((ns for state, ns in record.transitions if state not in _UNBORN), default=0)
    found = {
        "startTime": record.start_ns // 1_000_000 or table.get("startTime") or 0,
        "endTime": record.end_ns // 1_000_000 or table.get("endTime") or 0,
        "timestamp": float(latest // 1_000_000 or table.get("timestamp") or 0),
    }
    if str(table.get("numRestarts")) != str(record.num_restarts):
        return found
    is_same_end = table.get("state") == record.state and not record.closed_state
    exact = ("startTime", "endTime", "timestamp") if is_same_end else ("startTime",)
    return found | {name: table[name] for name in exact if table.get(name)}


def _plain_resources(resources: dict[str, Any]) -> dict[str, Any]:
    """Resources of a placement group under their own names, as `/logical/actors` shows them.

    Ray names them `CPU_group_{index}_{group}` and `CPU_group_{group}`; `bundle` is its own.
    """
    plain: dict[str, Any] = {}
    for name, amount in resources.items():
        formatted = _OF_PLACEMENT_GROUP.match(name)
        if formatted is None:
            plain[name] = amount
        elif formatted["name"] != "bundle":
            plain[formatted["name"]] = amount
    return plain


def _memory_of(session: CompiledSession, node_id: str) -> Any:
    summary = snapshots.item(session, endpoints.NODE_SUMMARY, node_id) if node_id else None
    return summary.get("mem", []) if isinstance(summary, dict) else []


def _state_from_table(actor: ActorSources) -> dict[str, Any]:
    table = actor.table
    return {
        "actor_id": actor.actor_id,
        "class_name": table.get("className", ""),
        "state": table.get("state", ""),
        "job_id": table.get("jobId"),
        "name": table.get("name", ""),
        "node_id": (table.get("address") or {}).get("nodeId"),
        "pid": table.get("pid", 0),
        "repr_name": table.get("reprName", ""),
        "num_restarts": str(table.get("numRestarts", "0")),
        "label_selector": table.get("labelSelector") or {},
        "required_resources": table.get("requiredResources") or {},
    }


def _table_from_state(actor: ActorSources) -> dict[str, Any]:
    state = actor.state
    return {
        "actorId": actor.actor_id,
        "jobId": state.get("job_id"),
        "address": {
            "nodeId": state.get("node_id") or "",
            "ipAddress": "",
            "port": 0,
            "workerId": "",
        },
        "name": state.get("name") or "",
        "className": state.get("class_name") or "",
        "actorClass": state.get("class_name") or "",
        "state": state.get("state") or "",
        "numRestarts": str(state.get("num_restarts") or "0"),
        "timestamp": 0.0,
        "pid": state.get("pid") or 0,
        "startTime": 0,
        "endTime": 0,
        "reprName": state.get("repr_name") or "",
        "labelSelector": state.get("label_selector") or {},
        "exitDetail": "-",
        "requiredResources": _plain_resources(state.get("required_resources") or {}),
    }


def _closed_state_row(session: CompiledSession, row: dict[str, Any]) -> dict[str, Any]:
    """An actor that only a snapshot has cannot outlive its session."""
    if row.get("state") != "DEAD" and is_over(session):
        message = ended_message(session, "actor", str(row.get("state") or ""))
        row["death_cause"] = {"actor_died_error_context": {"error_message": message}}
        row["state"] = "DEAD"
    return row


def _closed_table_entry(session: CompiledSession, entry: dict[str, Any]) -> dict[str, Any]:
    if entry.get("state") != "DEAD" and is_over(session):
        entry["exitDetail"] = ended_message(session, "actor", str(entry.get("state") or ""))
        entry["state"] = "DEAD"
        entry["endTime"] = session.meta.end_ms
    return entry
