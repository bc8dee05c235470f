"""Pairs of answers made by hand, for tests of the declared rules."""

from __future__ import annotations

from typing import Any

from tests.fidelity.asking import Answer
from tests.fidelity.comparing import compare
from tests.fidelity.evidence import ACTORS, TASKS
from tests.fidelity.rules import RULES

Body = dict[str, Any]
TAKEN_MS = 1_796_081_400_000
ACTOR = "c754436918efd423aebcbe3402000000"
CREATION = "f" * 16 + ACTOR
SUMMARY = "/api/v0/tasks/summarize?timeout=30"
LINEAGE = "/api/v0/tasks/summarize?filter_keys=job_id&filter_predicates=%3D&filter_values=02000000&summary_by=lineage"
OF_JOB = "/api/v0/tasks?detail=1&filter_keys=job_id&filter_predicates=%3D&filter_values=02000000"
FAILED_ONES = "/api/v0/tasks?filter_keys=state&filter_predicates=%3D&filter_values=FAILED"
TIMELINE = "/api/v0/tasks/timeline"
NAMES = {
    TASKS: "/api/v0/tasks detail",
    ACTORS: "/api/v0/actors detail",
    SUMMARY: "/api/v0/tasks/summarize",
    LINEAGE: "/api/v0/tasks/summarize by lineage",
    OF_JOB: "/api/v0/tasks of job",
    FAILED_ONES: "/api/v0/tasks by state",
    "/api/v0/objects?detail=1&limit=10000": "/api/v0/objects detail",
}
CLOSED = {
    "state": "FAILED",
    "error_type": "SESSION_ENDED",
    "error_message": "The Ray session ended at 2026-11-30 23:30:43 UTC while this task was RUNNING;"
    " whether it finished is not known.",
}


def task(task_id: str = "a" * 48, **other: Any) -> Body:
    """A task's row as Ray has it, as far as rules look."""
    times = {"RUNNING": TAKEN_MS - 60_000, "FINISHED": TAKEN_MS - 50_000}
    row = {
        "task_id": task_id, "attempt_number": 0, "name": "work", "func_or_class_name": "work",
        "state": "FINISHED", "job_id": "02000000", "type": "NORMAL_TASK", "actor_id": None,
        "parent_task_id": "f" * 40 + "02000000", "language": "PYTHON", "worker_id": "1" * 56, "node_id": "2" * 56,
        "worker_pid": 7, "error_type": None, "error_message": None, "end_time_ms": None,
        "creation_time_ms": 1,
        "events": [{"state": state, "created_ms": time} for state, time in times.items()],
    }  # fmt: skip
    return row | other


def running(**other: Any) -> Body:
    """The same task in the live answer, still open."""
    return task(state="RUNNING", events=task()["events"][:1], **other)


def creation(attempt: int, **other: Any) -> Body:
    """An attempt to create the restarted actor."""
    kind = {"type": "ACTOR_CREATION_TASK", "actor_id": ACTOR, "attempt_number": attempt}
    return task(CREATION, func_or_class_name="Plain.__init__", **(kind | other))


RESTARTED = {
    "actor_id": ACTOR, "state": "DEAD", "num_restarts": "1", "class_name": "Plain",
    "repr_name": "", "node_id": "2" * 56, "pid": 7,
}  # fmt: skip


def listing(rows: list[Body], **numbers: int) -> Body:
    """A state API answer."""
    counts = {"total": len(rows), "num_after_truncation": len(rows), "num_filtered": len(rows)}
    return {"data": {"result": {**counts, **numbers, "result": rows}}}


def reasons(live: dict[str, Any], ours: dict[str, Any]) -> set[str | None]:
    """The reasons that the declared rules give for the differences of some answers."""
    found = compare(captured(live), captured(ours), RULES)
    return {each.reason for one in found for each in one.differences}


def captured(side: dict[str, Any]) -> list[Answer]:
    """One side's answers, as a capture has them."""
    return [
        Answer(NAMES.get(path, path), path, 200, "application/json", body, TAKEN_MS)
        for path, body in side.items()
    ]


def tasks(*rows: Body) -> dict[str, Any]:
    """The answers of one side: these tasks and the actor."""
    return {TASKS: listing(list(rows)), ACTORS: listing([RESTARTED])}
