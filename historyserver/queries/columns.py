"""The columns of Ray's State API: which are listed, which only in detail, which can be filtered.

Taken from Ray 2.55's schema (`ray/util/state/common.py`) and its answers. A filter on any other
column is refused, as Ray refuses it: an unknown column must never look like "no rows match".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from historyserver.queries.options import CONTAINS, ORDER, Filter, QueryError, flag, integer


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one resource."""

    listed: tuple[str, ...]
    detailed: tuple[str, ...]
    """What `detail` adds."""
    filterable: frozenset[str]
    numbers: frozenset[str] = field(default_factory=frozenset)
    """Those of the filterable that hold whole numbers."""
    flags: frozenset[str] = field(default_factory=frozenset)
    """Those of the filterable that hold booleans."""

    def shown(self, *, detail: bool) -> tuple[str, ...]:
        """The columns of an answer."""
        return self.listed + self.detailed if detail else self.listed

    def check(self, filters: Iterable[Filter]) -> None:
        """Refuse what cannot be filtered. Raises `QueryError`."""
        for item in filters:
            if item.key not in self.filterable:
                raise QueryError(
                    f"The given filter column {item.key} is not supported. "
                    "Enter filters with --filter key=value or --filter key!=value "
                    f"Supported filter columns: {sorted(self.filterable)}"
                )
            number = item.key in self.numbers
            if item.predicate in ORDER and not number:
                raise QueryError(
                    f"The predicate {item.predicate} is for numbers; {item.key} is not one."
                )
            if item.predicate == CONTAINS and (number or item.key in self.flags):
                raise QueryError(f"The predicate contains is for text; {item.key} is not text.")
            if number:
                integer(f"The filter value of {item.key}", item.value)
            elif item.key in self.flags:
                flag(f"The filter value of {item.key}", item.value, default=False)


TASKS = Columns(
    listed=(
        "task_id", "attempt_number", "name", "state", "job_id", "actor_id", "type",
        "func_or_class_name", "parent_task_id", "node_id", "worker_id", "worker_pid",
        "error_type",
    ),
    detailed=(
        "language", "required_resources", "runtime_env_info", "placement_group_id", "events",
        "profiling_data", "creation_time_ms", "start_time_ms", "end_time_ms", "task_log_info",
        "error_message", "is_debugger_paused", "call_site", "label_selector",
        "fallback_strategy",
    ),
    filterable=frozenset({
        "task_id", "attempt_number", "name", "state", "job_id", "actor_id", "type",
        "func_or_class_name", "parent_task_id", "node_id", "worker_id", "worker_pid",
        "error_type", "language", "placement_group_id", "is_debugger_paused",
        "creation_time_ms", "start_time_ms", "end_time_ms",
    }),
    numbers=frozenset({
        "attempt_number", "worker_pid", "creation_time_ms", "start_time_ms", "end_time_ms",
    }),
    flags=frozenset({"is_debugger_paused"}),
)  # fmt: skip

ACTORS = Columns(
    listed=(
        "actor_id", "class_name", "state", "job_id", "name", "node_id", "pid", "ray_namespace",
    ),
    detailed=(
        "serialized_runtime_env", "required_resources", "death_cause", "is_detached",
        "placement_group_id", "repr_name", "num_restarts",
        "num_restarts_due_to_lineage_reconstruction", "num_restarts_due_to_node_preemption",
        "call_site", "label_selector", "fallback_strategy",
    ),
    filterable=frozenset({
        "actor_id", "class_name", "state", "job_id", "name", "node_id", "pid", "ray_namespace",
        "placement_group_id", "repr_name",
    }),
    numbers=frozenset({"pid"}),
)  # fmt: skip

JOBS = Columns(
    listed=(
        "job_id", "submission_id", "entrypoint", "type", "status", "message", "error_type",
        "driver_info",
    ),
    detailed=(
        "start_time", "end_time", "metadata", "runtime_env", "driver_agent_http_address",
        "driver_node_id", "driver_exit_code",
    ),
    filterable=frozenset({"job_id", "type", "status", "submission_id"}),
)  # fmt: skip

NODES = Columns(
    listed=(
        "node_id", "node_ip", "is_head_node", "state", "state_message", "node_name",
        "resources_total", "labels",
    ),
    detailed=("start_time_ms", "end_time_ms"),
    filterable=frozenset({"node_id", "node_ip", "is_head_node", "state", "node_name"}),
    flags=frozenset({"is_head_node"}),
)  # fmt: skip

WORKERS = Columns(
    listed=("worker_id", "is_alive", "worker_type", "exit_type", "node_id", "ip", "pid"),
    detailed=(
        "exit_detail", "worker_launch_time_ms", "worker_launched_time_ms", "start_time_ms",
        "end_time_ms", "debugger_port", "num_paused_threads",
    ),
    filterable=frozenset({
        "worker_id", "is_alive", "worker_type", "exit_type", "node_id", "ip", "pid",
        "debugger_port", "num_paused_threads",
    }),
    numbers=frozenset({"pid", "debugger_port", "num_paused_threads"}),
    flags=frozenset({"is_alive"}),
)  # fmt: skip

PLACEMENT_GROUPS = Columns(
    listed=("placement_group_id", "name", "creator_job_id", "state"),
    detailed=("bundles", "is_detached", "stats"),
    filterable=frozenset({"placement_group_id", "name", "creator_job_id", "state", "is_detached"}),
    flags=frozenset({"is_detached"}),
)

OBJECTS = Columns(
    listed=(
        "object_id", "object_size", "task_status", "attempt_number", "reference_type",
        "call_site", "type", "pid", "ip",
    ),
    detailed=(),
    filterable=frozenset({
        "object_id", "object_size", "task_status", "attempt_number", "reference_type",
        "call_site", "type", "pid", "ip",
    }),
    numbers=frozenset({"object_size", "attempt_number", "pid"}),
)  # fmt: skip

RUNTIME_ENVS = Columns(
    listed=("runtime_env", "success", "creation_time_ms", "node_id"),
    detailed=("ref_cnt", "error"),
    filterable=frozenset({"runtime_env", "success", "node_id", "error"}),
    flags=frozenset({"success"}),
)

CLUSTER_EVENTS = Columns(
    listed=("severity", "time", "source_type", "message", "event_id", "custom_fields"),
    detailed=(),
    filterable=frozenset({"severity", "time", "source_type", "message", "event_id"}),
)
