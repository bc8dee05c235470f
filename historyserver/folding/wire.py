"""Ray's exported events as typed structs: the fields that folding needs, nothing else.

Names follow Ray's protobuf (`events_base_event.proto` and its payloads, 2.53 to 2.60); JSON
carries them in camelCase. Scalars that Ray left out or at their default read as "" or 0. The
decoder is lax, since 64-bit integers come as strings. `gc=False`: nothing here can form a
cycle, and the collector's passes would cost more than the decoding.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Wire(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    pass


class Transition(_Wire):
    """A task's or a job's change of state."""

    state: str = ""
    timestamp: str = ""


class TaskDefinition(_Wire):
    """What was submitted. Maps stay raw, since thousands of tasks share the same few."""

    task_id: str = ""
    task_attempt: int = 0
    task_type: str = ""
    task_func: msgspec.Raw = msgspec.Raw(b"{}")
    task_name: str = ""
    parent_task_id: str = ""
    placement_group_id: str = ""
    language: str = ""
    required_resources: msgspec.Raw = msgspec.Raw(b"{}")
    serialized_runtime_env: str = ""
    label_selector: msgspec.Raw = msgspec.Raw(b"{}")
    call_site: str = ""
    fallback_strategy: msgspec.Raw = msgspec.Raw(b"")


class ActorTaskDefinition(_Wire):
    """A method call; its names differ from a task's."""

    task_id: str = ""
    task_attempt: int = 0
    actor_func: msgspec.Raw = msgspec.Raw(b"{}")
    actor_task_name: str = ""
    parent_task_id: str = ""
    placement_group_id: str = ""
    language: str = ""
    required_resources: msgspec.Raw = msgspec.Raw(b"{}")
    serialized_runtime_env: str = ""
    label_selector: msgspec.Raw = msgspec.Raw(b"{}")
    call_site: str = ""
    fallback_strategy: msgspec.Raw = msgspec.Raw(b"")


class TaskLogInfo(_Wire):
    """Where the attempt printed, as far as this event tells."""

    stdout_file: str = ""
    stderr_file: str = ""
    stdout_start: Int64 = 0
    stdout_end: Int64 = 0
    stderr_start: Int64 = 0
    stderr_end: Int64 = 0


class MessageContext(_Wire):
    """Any of Ray's error contexts; each has its text under one of these names."""

    error_message: str = ""
    formatted_exception_string: str = ""


class ActorDeath(_Wire):
    """`ActorDeathCause`: one of these is set."""

    actor_died_error_context: MessageContext | None = None
    actor_unschedulable_context: MessageContext | None = None
    creation_task_failure_context: MessageContext | None = None
    oom_context: MessageContext | None = None
    runtime_env_failed_context: MessageContext | None = None


class RayErrorInfo(_Wire):
    """Why an attempt failed."""

    error_type: str = ""
    error_message: str = ""
    actor_died_error: ActorDeath | None = None
    runtime_env_setup_failed_error: MessageContext | None = None


class TaskLifecycle(_Wire):
    """What one process (owner or executor) saw of an attempt."""

    task_id: str = ""
    task_attempt: int = 0
    state_transitions: tuple[Transition, ...] = ()
    node_id: str = ""
    worker_id: str = ""
    worker_pid: Int64 = 0
    task_log_info: TaskLogInfo | None = None
    ray_error_info: RayErrorInfo | None = None
    is_debugger_paused: bool | None = None
    actor_repr_name: str = ""


class Span(_Wire):
    """One profile event; times in ns since the epoch. Its fields are those of `ProfileEvent`."""

    event_name: str = ""
    start_time: Int64 = 0
    end_time: Int64 = 0
    extra_data: str = ""


class Spans(_Wire):
    """The profile events of one process."""

    component_type: str = ""
    component_id: str = ""
    node_ip_address: str = ""
    events: tuple[Span, ...] = ()


class TaskProfile(_Wire):
    """The spans of an attempt; here the attempt is `attemptNumber`."""

    task_id: str = ""
    attempt_number: int = 0
    profile_events: Spans | None = None


class JobConfig(_Wire):
    """The driver's job config."""

    serialized_runtime_env: str = ""
    metadata: dict[str, str] = {}


class DriverJobDefinition(_Wire):
    """A driver that connected."""

    job_id: str = ""
    driver_pid: Int64 = 0
    driver_node_id: str = ""
    entrypoint: str = ""
    config: JobConfig | None = None


class DriverJobLifecycle(_Wire):
    """CREATED and FINISHED; never whether it succeeded."""

    job_id: str = ""
    state_transitions: tuple[Transition, ...] = ()


class NodeDefinition(_Wire):
    """A node that joined."""

    node_id: str = ""
    node_ip_address: str = ""
    labels: dict[str, str] = {}
    start_timestamp: str = ""
    hostname: str = ""
    node_name: str = ""
    instance_id: str = ""
    instance_type_name: str = ""


class NodeDeath(_Wire):
    """Why a node went."""

    reason: str = ""
    reason_message: str = ""


class NodeTransition(_Wire):
    """A node's change of state; resources come with ALIVE."""

    state: str = ""
    timestamp: str = ""
    resources: dict[str, float] = {}
    death_info: NodeDeath | None = None


class NodeLifecycle(_Wire):
    """A node's states."""

    node_id: str = ""
    state_transitions: tuple[NodeTransition, ...] = ()


class ActorDefinition(_Wire):
    """An actor as it was registered."""

    actor_id: str = ""
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


class ActorTransition(_Wire):
    """An actor's change of state; the place comes with ALIVE, the cause with DEAD."""

    state: str = ""
    timestamp: str = ""
    node_id: str = ""
    worker_id: str = ""
    repr_name: str = ""
    pid: Int64 = 0
    port: Int64 = 0
    death_cause: msgspec.Raw = msgspec.Raw(b"")


class ActorLifecycle(_Wire):
    """An actor's states."""

    actor_id: str = ""
    state_transitions: tuple[ActorTransition, ...] = ()


class WorkerDefinition(_Wire):
    """A worker process (Ray 2.60 on)."""

    worker_id: str = ""
    node_id: str = ""
    pid: Int64 = 0
    worker_type: str = ""


class WorkerDeath(_Wire):
    """Why a worker went."""

    exit_type: str = ""
    exit_detail: str = ""


class WorkerTransition(_Wire):
    """A worker's change of state. Times are unsigned 64 bit: all ones means never."""

    state: str = ""
    timestamp: str = ""
    worker_launch_time_ms: int = 0
    worker_launched_time_ms: int = 0
    start_time_ms: int = 0
    end_time_ms: int = 0
    death_info: WorkerDeath | None = None


class WorkerLifecycle(_Wire):
    """A worker's states."""

    worker_id: str = ""
    job_id: str = ""
    state_transitions: tuple[WorkerTransition, ...] = ()


class Event(_Wire):
    """The envelope with whichever payload it has."""

    event_type: str = ""
    timestamp: str = ""
    task_lifecycle_event: TaskLifecycle | None = None
    task_definition_event: msgspec.Raw = msgspec.Raw(b"")
    """Raw, as the next: thousands differ in their task id only (see `definitions`)."""
    task_profile_events: TaskProfile | None = None
    actor_task_definition_event: msgspec.Raw = msgspec.Raw(b"")
    actor_definition_event: ActorDefinition | None = None
    actor_lifecycle_event: ActorLifecycle | None = None
    driver_job_definition_event: DriverJobDefinition | None = None
    driver_job_lifecycle_event: DriverJobLifecycle | None = None
    node_definition_event: NodeDefinition | None = None
    node_lifecycle_event: NodeLifecycle | None = None
    worker_definition_event: WorkerDefinition | None = None
    worker_lifecycle_event: WorkerLifecycle | None = None
