"""What folding yields: one record per entity, in plain types that pickle, encode and compare.

Ids are lower-case hex as in Ray's API (events carry base64). Times are nanoseconds since the
epoch (`_ns`); a missing one is 0. A scalar that Ray left at its protobuf default ("" or 0)
means "absent" and is never stored over a known value (measured on Ray 2.55).
"""

from __future__ import annotations

import msgspec


class LogInfo(msgspec.Struct, array_like=True, frozen=True):
    """Where in its worker's files a task attempt printed. Offsets of -1 are not known."""

    stdout_file: str = ""
    stderr_file: str = ""
    stdout_start: int = -1
    stdout_end: int = -1
    stderr_start: int = -1
    stderr_end: int = -1


class ProfileEvent(msgspec.Struct, array_like=True, frozen=True):
    """One span of a worker's timeline. `extra_json` is Ray's `extraData` as it came."""

    name: str
    start_ns: int
    end_ns: int
    extra_json: str = ""


class Profile(msgspec.Struct, array_like=True, frozen=True):
    """The spans that one process reported for a task attempt."""

    component_type: str
    component_id: str
    node_ip: str
    events: tuple[ProfileEvent, ...]


class TaskDetail(msgspec.Struct, array_like=True):
    """What is particular to one task attempt (see `compiled.details`)."""

    transitions: list[tuple[str, int]] = []
    """(state, time in ns), ordered by time; only what Ray reported."""
    profiles: list[Profile] = []
    error_message: str = ""
    """As Ray sent it, ANSI codes included."""
    closed_state: str = ""
    """When the session's end closed this attempt: the last state that Ray reported."""
    is_debugger_paused: bool | None = None
    actor_repr_name: str = ""
    fallback_strategy_json: str = ""
    is_place_derived: bool = False
    """Node and worker come from the actor (creation tasks): Ray's own API shows null for them."""
    log_info: LogInfo | None = None
    """As events told it; a start that they do not tell may be in `tasks`."""


class ActorRecord(msgspec.Struct, kw_only=True):
    """One actor, over all of its restarts."""

    actor_id: str
    job_id: str = ""
    is_detached: bool = False
    name: str = ""
    ray_namespace: str = ""
    class_name: str = ""
    serialized_runtime_env: str = ""
    required_resources: dict[str, float] = {}
    placement_group_id: str = ""
    label_selector: dict[str, str] = {}
    call_site: str = ""
    parent_id: str = ""
    repr_name: str = ""
    state: str = ""
    node_id: str = ""
    worker_id: str = ""
    ip_address: str = ""
    pid: int = 0
    port: int = 0
    num_restarts: int = 0
    start_ns: int = 0
    end_ns: int = 0
    death_cause_json: str = ""
    """Ray's `deathCause` (camelCase), with sorted keys."""
    transitions: list[tuple[str, int]] = []
    closed_state: str = ""
    """When the session's end closed this actor: the last state that Ray reported."""


class JobRecord(msgspec.Struct, kw_only=True):
    """One driver job. What only the dashboard knows of it comes from a snapshot."""

    job_id: str
    driver_pid: int = 0
    driver_node_id: str = ""
    entrypoint: str = ""
    serialized_runtime_env: str = ""
    metadata: dict[str, str] = {}
    state: str = ""
    start_ns: int = 0
    end_ns: int = 0
    closed_state: str = ""


class NodeRecord(msgspec.Struct, kw_only=True):
    """One Ray node."""

    node_id: str
    ip_address: str = ""
    hostname: str = ""
    node_name: str = ""
    instance_id: str = ""
    instance_type_name: str = ""
    labels: dict[str, str] = {}
    state: str = ""
    resources_total: dict[str, float] = {}
    start_ns: int = 0
    end_ns: int = 0
    death_reason: str = ""
    death_message: str = ""
    is_head: bool = False
    closed_state: str = ""
    """When the session's end closed this node: the last state that Ray reported."""


class WorkerRecord(msgspec.Struct, kw_only=True):
    """One worker process (events since Ray 2.60; before, from tasks, actors and snapshots)."""

    worker_id: str
    node_id: str = ""
    job_id: str = ""
    pid: int = 0
    worker_type: str = ""
    state: str = ""
    ip_address: str = ""
    launch_ms: int = 0
    launched_ms: int = 0
    start_ms: int = 0
    end_ms: int = 0
    exit_type: str = ""
    exit_detail: str = ""
