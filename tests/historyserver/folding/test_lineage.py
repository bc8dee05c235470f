"""The progress tree follows Ray's rules, at any size."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.util.state.common import TaskSummaries

from historyserver.folding.lineage import MAX_CHILDREN, Lineage

JOB = bytes.fromhex("02000000")
NO_ACTOR = b"\xff" * 12
DRIVER = b"\xff" * 20 + JOB
STATES = ["FINISHED", "FAILED", "RUNNING", "PENDING_ARGS_AVAIL"]


@st.composite
def task_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Tasks of some names, states and times under a driver, each other, and actors."""
    tasks: list[dict[str, Any]] = []
    actors = [bytes([number]) * 12 + JOB for number in range(draw(st.integers(0, 3)))]
    parents = [DRIVER, b"\x77" * 24]  # the second one is known to nobody
    for actor in actors:
        tasks.append(
            _task(draw, b"\xff" * 8 + actor, "ACTOR_CREATION_TASK", draw(st.sampled_from(parents)))
        )
        parents.append(tasks[-1]["id"])
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["NORMAL_TASK", "ACTOR_TASK"]))
        tail = draw(st.sampled_from(actors)) if kind == "ACTOR_TASK" and actors else NO_ACTOR + JOB
        kind = kind if tail[:12] != NO_ACTOR else "NORMAL_TASK"
        tasks.append(
            _task(draw, bytes([100 + number]) * 8 + tail, kind, draw(st.sampled_from(parents)))
        )
        parents.append(tasks[-1]["id"])
    return sorted(tasks, key=lambda task: task["id"])


def _task(draw: st.DrawFn, task_id: bytes, kind: str, parent: bytes) -> dict[str, Any]:
    return {
        "id": task_id,
        "name": draw(st.sampled_from(["a", "b", "c"])),
        "type": kind,
        "parent": parent,
        "state": draw(st.sampled_from(STATES)),
        "ms": draw(st.integers(1, 5)),
    }


def ours(tasks: list[dict[str, Any]]) -> Any:
    """Our summary."""
    lineage = Lineage()
    for t in tasks:
        lineage.add((t["id"], t["name"], "F.m", t["type"], t["state"], t["parent"], t["ms"]))
    return msgspec.to_builtins(lineage.summary({}))


def rays(tasks: list[dict[str, Any]]) -> Any:
    """What the installed Ray makes of the same tasks."""
    rows = [
        {
            "task_id": t["id"].hex(), "name": t["name"], "func_or_class_name": "F.m",
            "type": t["type"], "state": t["state"], "parent_task_id": t["parent"].hex(),
            "actor_id": t["id"][8:].hex(), "creation_time_ms": t["ms"],
        }
        for t in tasks
    ]  # fmt: skip
    summary = TaskSummaries.to_summary_by_lineage(tasks=rows, actors=[])
    return {
        "summary": [_plain(entry) for entry in summary.summary],
        "total_tasks": summary.total_tasks,
        "total_actor_tasks": summary.total_actor_tasks,
        "total_actor_scheduled": summary.total_actor_scheduled,
        "summary_by": "lineage",
    }


def _plain(entry: Any) -> dict[str, Any]:
    return {
        "name": entry.name,
        "key": entry.key,
        "type": entry.type,
        "timestamp": entry.timestamp,
        "state_counts": entry.state_counts,
        "children": [_plain(child) for child in entry.children],
        "link": None if entry.link is None else {"type": entry.link.type, "id": entry.link.id},
    }


def unordered(value: Any) -> Any:
    """Without what Ray leaves to chance: the order of equals, and an actor's own time.

    Ray gives an actor the time of whichever task it looks at first, if that is earlier.
    """
    if isinstance(value, dict):
        drop = {"timestamp"} if "children" in value else set()
        return {key: unordered(item) for key, item in value.items() if key not in drop}
    if isinstance(value, list):
        return sorted((unordered(item) for item in value), key=repr)
    return value


@settings(max_examples=60, deadline=None)
@given(tasks=task_lists())
def test_the_tree_is_the_one_that_ray_makes(tasks: list[dict[str, Any]]) -> None:
    """Same entries, groups, counts and links as the installed Ray's own function."""
    assert unordered(ours(tasks)) == unordered(rays(tasks))


def normal(number: int, **changes: Any) -> dict[str, Any]:
    """A task of the driver."""
    task = {"id": number.to_bytes(8, "big") + NO_ACTOR + JOB, "name": "a", "type": "NORMAL_TASK",
            "parent": DRIVER, "state": "FINISHED", "ms": 1 + number}  # fmt: skip
    return task | changes


def test_a_large_group_lists_its_first_children_and_counts_all() -> None:
    """Failed ones come first, then by time, as in Ray."""
    tasks = [normal(n) for n in range(5000)] + [normal(9000, state="FAILED")]
    (group,) = ours(tasks)["summary"]
    assert group["state_counts"] == {"FINISHED": 5000, "FAILED": 1}
    assert len(group["children"]) == MAX_CHILDREN
    assert group["children"][0]["state_counts"] == {"FAILED": 1}
    assert [child["timestamp"] for child in group["children"][1:4]] == [1, 2, 3]


@pytest.mark.parametrize("length", [5, 5000])
def test_a_chain_of_any_length_is_counted(length: int) -> None:
    """Each task starts the next: no recursion limit, exact counts at the top."""
    tasks = [normal(0, name="t0")]
    for number in range(1, length):
        tasks.append(normal(number, name=f"t{number % 2}", parent=tasks[-1]["id"]))
    (top,) = ours(tasks)["summary"]
    assert top["state_counts"] == {"FINISHED": length}


def test_attempts_of_one_task_are_one_entry() -> None:
    """Counts of all attempts."""
    (entry,) = ours([normal(1, state="FAILED"), normal(1)])["summary"]
    assert entry["state_counts"] == {"FAILED": 1, "FINISHED": 1}
