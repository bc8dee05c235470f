"""Nodes in the shapes of Ray's dashboard and its State API.

State, death, resources and labels come from events. Hardware figures come from the last
snapshot; without one they are absent or zero, as the pages need them, never invented.

A node that outlived the session is DEAD in `/api/v0/nodes`, with a message. The dashboard's own
views keep it ALIVE with that message: Ray's Logs page lists only ALIVE nodes, and a session's
logs must stay reachable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from historyserver.compiled.envelopes import success
from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import NodeRecord
from historyserver.queries import fitting, snapshots
from historyserver.queries.actor_records import actors_on
from historyserver.queries.actors import table_entry
from historyserver.queries.columns import NODES
from historyserver.queries.logical_resources import resources_text
from historyserver.queries.matching import answer_list
from historyserver.queries.options import ListOptions
from historyserver.queries.session_end import is_over, node_ended_message
from storage import endpoints

NODE_GROUP_LABEL = "ray.io/node-group"
"""The KubeRay operator's name of the pod group; Ray shows it as the node's type."""

_DEATHS = {
    "EXPECTED_TERMINATION": "Expected termination",
    "UNEXPECTED_TERMINATION": "Unexpected termination",
    "AUTOSCALER_DRAIN_PREEMPTED": "Terminated due to preemption",
    "AUTOSCALER_DRAIN_IDLE": "Terminated due to idle (no Ray activity)",
}
"""Ray's own words (`compose_state_message`, 2.55)."""

_decode = msgspec.msgpack.Decoder(NodeRecord).decode


def list_nodes(session: CompiledSession, options: ListOptions) -> dict[str, Any]:
    """`/api/v0/nodes`. Raises `QueryError`."""
    known = dict(snapshots.items(session, endpoints.NODES))
    rows = [_state_row(session, node, known.pop(node.node_id, {})) for node in nodes(session)]
    rows += [_closed_snapshot(session, row) for row in known.values()]
    return answer_list(rows, options, NODES, sort_key=lambda row: row.get("node_id") or "")


def node_summary(session: CompiledSession) -> dict[str, Any]:
    """`/nodes?view=summary`."""
    known = dict(snapshots.items(session, endpoints.NODE_SUMMARY))
    found = list(nodes(session))
    summary = [_dashboard_node(session, n, known.pop(n.node_id, {})) for n in found]
    summary += known.values()
    collection = snapshots.whole(session, endpoints.NODE_SUMMARY)
    kept = _inner(collection, "data", "nodeLogicalResources")
    texts = dict(kept) if isinstance(kept, dict) else {}
    for node in found:
        if node.node_id not in texts and node.resources_total and _was_alive(node):
            texts[node.node_id] = resources_text(node.resources_total)
    return success("Node summary fetched.", {"summary": summary, "nodeLogicalResources": texts})


def host_names(session: CompiledSession) -> dict[str, Any]:
    """`/nodes?view=hostNameList`: of the nodes that the dashboard's views show ALIVE."""
    names = {node.hostname: None for node in nodes(session) if _was_alive(node) and node.hostname}
    return success("Node hostname list fetched.", {"hostNameList": list(names)})


def node_detail(session: CompiledSession, node_id: str) -> dict[str, Any]:
    """`/nodes/{id}`; of an unknown node an almost empty answer, as Ray's."""
    node_id = node_id.lower()
    record = next((n for n in nodes(session) if n.node_id == node_id), None)
    known = _known_detail(session, node_id)
    if record is None:
        detail = known or {"raylet": _no_memory()}
    else:
        detail = _dashboard_node(session, record, known)
    actors = {a.actor_id: table_entry(session, a) for a in actors_on(session, node_id)}
    detail["actors"] = {**(detail.get("actors") or {}), **actors}
    detail.setdefault("workers", [])
    return success("Node details fetched.", {"detail": detail})


def nodes(session: CompiledSession) -> Iterator[NodeRecord]:
    """The nodes that events tell of, in start order."""
    for (body,) in session.connection().execute("SELECT body FROM nodes ORDER BY row"):
        yield _decode(body)


def state_message(session: CompiledSession, node: NodeRecord) -> str | None:
    """Why the node is gone, in Ray's words; None while it lives."""
    if node.closed_state:
        return node_ended_message(session)
    said = _DEATHS.get(node.death_reason)
    if not node.death_message:
        return said
    return f"{said}: {node.death_message}" if said else node.death_message


def _state_row(session: CompiledSession, node: NodeRecord, known: dict[str, Any]) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "node_ip": node.ip_address or known.get("node_ip") or "",
        "is_head_node": node.is_head or bool(known.get("is_head_node")),
        "state": node.state or known.get("state") or "",
        "state_message": state_message(session, node) or known.get("state_message"),
        "node_name": node.node_name or known.get("node_name") or "",
        "resources_total": _resources(node) or known.get("resources_total") or {},
        "labels": node.labels or known.get("labels") or {},
        "start_time_ms": node.start_ns // 1_000_000 or known.get("start_time_ms") or 0,
        "end_time_ms": node.end_ns // 1_000_000,
    }


def _closed_snapshot(session: CompiledSession, row: dict[str, Any]) -> dict[str, Any]:
    """A node that only a snapshot has cannot outlive its session."""
    if row.get("state") == "ALIVE" and is_over(session):
        ended = {"state": "DEAD", "state_message": node_ended_message(session)}
        return {**row, **ended, "end_time_ms": session.meta.end_ms}
    return row


def _dashboard_node(
    session: CompiledSession, node: NodeRecord, known: dict[str, Any]
) -> dict[str, Any]:
    """One node as the dashboard shows it; `known` is what a snapshot says, or {}."""
    base = known or _without_figures(node)
    raylet = {**_no_memory(), **_derived(session, node), **(base.get("raylet") or {})}
    raylet |= {
        "nodeId": node.node_id,
        "state": "ALIVE" if _was_alive(node) else node.state,
        "stateMessage": state_message(session, node),
        "isHeadNode": node.is_head or bool(raylet.get("isHeadNode")),
    }
    if node.end_ns and not node.closed_state:
        raylet["endTimeMs"] = str(node.end_ns // 1_000_000)
    told = {
        "nodeManagerAddress": node.ip_address,
        "nodeManagerHostname": node.hostname,
        "nodeName": node.node_name,
        "instanceId": node.instance_id,
        "instanceTypeName": node.instance_type_name,
        "labels": {_camel(name): value for name, value in node.labels.items()},
        "resourcesTotal": {_camel(name): value for name, value in _resources(node).items()},
        "startTimeMs": str(node.start_ns // 1_000_000),
    }
    for name, value in told.items():
        raylet[name] = value or raylet.get(name) or value
    raylet.setdefault("endTimeMs", "0")
    return {**base, "raylet": raylet}


def _derived(session: CompiledSession, node: NodeRecord) -> dict[str, Any]:
    """What events tell of a raylet under other names."""
    found: dict[str, Any] = {
        "objectStoreAvailableMemory": int(node.resources_total.get("object_store_memory", 0)),
        "nodeTypeName": node.labels.get(NODE_GROUP_LABEL, ""),
    }
    if session.meta.session_dir:
        folder = session.meta.session_dir
        found |= {"sessionDir": folder, "tempDir": folder.rpartition("/")[0]}
    return found


def _was_alive(node: NodeRecord) -> bool:
    return node.state == "ALIVE" or node.closed_state == "ALIVE"


def _without_figures(node: NodeRecord) -> dict[str, Any]:
    """What the pages read without asking whether it is there. Memory and disk stay absent."""
    return {
        "now": 0,
        "hostname": node.hostname,
        "ip": node.ip_address,
        "cpu": 0,
        "bootTime": 0,
        "loadAvg": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        "gpus": [],
        "tpus": [],
        "network": [0, 0],
        "networkSpeed": [0.0, 0.0],
        "cmdline": [],
        "gcs": None,
    }


def _no_memory() -> dict[str, Any]:
    return {"objectStoreUsedMemory": 0, "objectStoreAvailableMemory": 0, "stateMessage": None}


def _known_detail(session: CompiledSession, node_id: str) -> dict[str, Any]:
    body = snapshots.whole(session, endpoints.node_detail(node_id))
    detail = fitting.fitted(_inner(body, "data", "detail"), fitting.NODE_SUMMARY)
    if detail is not None and detail.get("raylet"):
        return detail
    return snapshots.item(session, endpoints.NODE_SUMMARY, node_id) or {}


def _inner(body: Any, *names: str) -> Any:
    for name in names:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def _resources(node: NodeRecord) -> dict[str, float]:
    return {name: float(amount) for name, amount in node.resources_total.items()}


def _camel(name: str) -> str:
    """A name as the dashboard's views turn every key: `object_store_memory` is camelCase there."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
