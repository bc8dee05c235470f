"""Stored answers of a dashboard, fitted to the shapes that the queries read.

A snapshot is whatever some version of Ray, or some collector, has stored. What is of another
type than Ray's is left out, as if it had not been told: one odd field must not hide the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_Kind = Callable[[Any], bool]


def number(value: Any) -> bool:
    """Whether a value is a number, or one as text (Ray prints 64-bit numbers so)."""
    if isinstance(value, str):
        return value.removeprefix("-").isdecimal() and value.isascii() and len(value) <= 19
    return isinstance(value, int | float) and not isinstance(value, bool)


def text(value: Any) -> bool:
    """Whether a value is text."""
    return isinstance(value, str)


def mapping(value: Any) -> bool:
    """Whether a value is a JSON object."""
    return isinstance(value, dict)


def sequence(value: Any) -> bool:
    """Whether a value is a JSON array."""
    return isinstance(value, list)


def fitted(value: Any, kinds: Mapping[str, _Kind]) -> dict[str, Any] | None:
    """The object without the fields that are of another kind; None when it is no object."""
    if not isinstance(value, dict):
        return None
    odd = [name for name, fits in kinds.items() if name in value and not fits(value[name])]
    odd = [name for name in odd if value[name] is not None]
    return {name: inner for name, inner in value.items() if name not in odd} if odd else value


ACTOR_TABLE: Mapping[str, _Kind] = {
    "address": mapping, "requiredResources": mapping, "labelSelector": mapping,
    "numRestarts": number, "pid": number, "startTime": number, "endTime": number,
    "timestamp": number, "actorId": text, "state": text, "className": text, "name": text,
    "reprName": text, "exitDetail": text, "jobId": text, "gpus": sequence, "mem": sequence,
}  # fmt: skip
STATE_ACTORS: Mapping[str, _Kind] = {
    "required_resources": mapping, "label_selector": mapping, "death_cause": mapping,
    "num_restarts": number, "pid": number, "actor_id": text, "state": text, "class_name": text,
    "name": text, "job_id": text, "node_id": text, "repr_name": text,
}  # fmt: skip
NODE_SUMMARY: Mapping[str, _Kind] = {
    "raylet": mapping, "actors": mapping, "workers": sequence, "mem": sequence,
}  # fmt: skip
STATE_NODES: Mapping[str, _Kind] = {
    "node_id": text, "state": text, "state_message": text, "node_ip": text, "node_name": text,
    "resources_total": mapping, "labels": mapping, "start_time_ms": number, "end_time_ms": number,
}  # fmt: skip
STATE_WORKERS: Mapping[str, _Kind] = {
    "worker_id": text, "node_id": text, "ip": text, "pid": number, "worker_type": text,
    "exit_type": text, "exit_detail": text, "start_time_ms": number, "end_time_ms": number,
}  # fmt: skip
PLACEMENT_GROUPS: Mapping[str, _Kind] = {
    "placement_group_id": text, "name": text, "state": text, "bundles": sequence, "stats": mapping,
}  # fmt: skip
JOBS: Mapping[str, _Kind] = {
    "job_id": text, "submission_id": text, "type": text, "status": text, "entrypoint": text,
    "message": text, "error_type": text, "start_time": number, "end_time": number,
    "metadata": mapping, "runtime_env": mapping, "driver_info": mapping, "driver_node_id": text,
}  # fmt: skip
OBJECTS: Mapping[str, _Kind] = {
    "object_id": text, "object_size": number, "task_status": text, "attempt_number": number,
    "reference_type": text, "call_site": text, "type": text, "pid": number, "ip": text,
}  # fmt: skip
RUNTIME_ENVS: Mapping[str, _Kind] = {"runtime_env": mapping, "creation_time_ms": number}
