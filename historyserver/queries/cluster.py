"""What the dashboard says of the cluster as a whole."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from historyserver.compiled.envelopes import success
from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import NodeRecord
from historyserver.queries import snapshots
from historyserver.queries.logical_resources import resources_text
from historyserver.queries.nodes import NODE_GROUP_LABEL, nodes
from storage import endpoints

MAX_FAILURES = 20
"""As many failed nodes as Ray's own report names."""

_RULE = "-" * 63
_EXPECTED = frozenset({"EXPECTED_TERMINATION", "AUTOSCALER_DRAIN_IDLE"})


def cluster_status(session: CompiledSession) -> Any:
    """`/api/cluster_status`: the last snapshot, or nulls as Ray has without an autoscaler."""
    kept = snapshots.whole(session, endpoints.CLUSTER_STATUS)
    if kept is not None:
        return kept
    nothing = {"autoscalingStatus": None, "autoscalingError": None, "clusterStatus": None}
    return success("Got cluster status. No status was kept of this session.", nothing)


def cluster_status_text(session: CompiledSession) -> Any:
    """`/api/cluster_status?format=1`: the last snapshot, or a text rebuilt from node events."""
    kept = snapshots.whole(session, endpoints.CLUSTER_STATUS_TEXT)
    if kept is not None:
        return kept
    return success(
        "Rebuilt from node events, as of the end of the session; "
        "usage and pending demands are not known.",
        {"clusterStatus": _rebuilt(list(nodes(session)), session.meta.end_ms)},
    )


def cluster_metadata(session: CompiledSession) -> Any:
    """`/api/v0/cluster_metadata`: the last snapshot, or what else is known of the versions."""
    kept = snapshots.whole(session, endpoints.CLUSTER_METADATA)
    if kept is not None:
        return kept
    known = {
        "rayVersion": session.meta.ray_version or None,
        "pythonVersion": session.meta.python_version or None,
        "rayInitCluster": None,
    }
    return success("", known)


def component_activities(session: CompiledSession) -> Any:
    """`/api/component_activities`: the last snapshot; without one, activity is not known."""
    kept = snapshots.whole(session, endpoints.COMPONENT_ACTIVITIES)
    if kept is not None:
        return kept
    reason = "No activity report was kept of this session."
    timestamp = session.meta.end_ms / 1000
    return {
        "driver": {
            "is_active": "INACTIVE",
            "reason": reason,
            "timestamp": timestamp,
            "last_activity_at": None,
        }
    }


def _rebuilt(found: list[NodeRecord], end_ms: int) -> str:
    moment = datetime.fromtimestamp(end_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    active = [node for node in found if "ALIVE" in (node.state, node.closed_state)]
    groups = Counter(_group(node) for node in active)
    totals: Counter[str] = Counter()
    for node in active:
        totals.update(node.resources_total)
    lines = [
        f"======== Autoscaler status: {moment} ========",
        "Node status",
        _RULE,
        "Active:",
        *([f" {number} {name}" for name, number in groups.items()] or [" (no active nodes)"]),
        "Pending:",
        " (not kept)",
        "Recent failures:",
        *(_failures(found) or [" (no failures)"]),
        "",
        "Resources",
        _RULE,
        "Total Usage:",
        *([f" {line}" for line in resources_text(totals).splitlines()] or [" (none)"]),
        "",
        "From request_resources:",
        " (not kept)",
        "Pending Demands:",
        " (not kept)",
    ]
    return "\n".join(lines)


def _group(node: NodeRecord) -> str:
    return node.labels.get(NODE_GROUP_LABEL) or f"node_{node.node_id}"


def _failures(found: list[NodeRecord]) -> list[str]:
    failed = [
        node
        for node in found
        if node.state == "DEAD" and not node.closed_state and node.death_reason not in _EXPECTED
    ]
    failed.sort(key=lambda node: -node.end_ns)
    return [
        f" {_group(node)}: RayletUnexpectedlyDied (ip: {node.ip_address})"
        for node in failed[:MAX_FAILURES]
    ]
