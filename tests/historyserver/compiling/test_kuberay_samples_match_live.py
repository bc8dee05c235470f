"""The sessions that KubeRay's collectors wrote compile to what the live dashboard answered."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import LogInfo
from tests.harness.compiled_samples import (
    Version,
    compile_kuberay_sample,
    compiled_records,
    compiled_tasks,
    kuberay_live,
)

ANSI = re.compile(r"\x1b[^m]*m")


@pytest.fixture(params=["v162", "v170"])
def version(request: pytest.FixtureRequest) -> Version:
    """Which collector wrote the session."""
    found: Version = request.param
    return found


@pytest.fixture
def session(version: Version, tmp_path: Path) -> CompiledSession:
    """The compiled sample session."""
    return compile_kuberay_sample(version, tmp_path / "session.sqlite")


def live_tasks(version: Version) -> dict[str, dict[str, Any]]:
    """The live answer's task attempts by id."""
    rows = kuberay_live(version, "tasks")["data"]["result"]["result"]
    return {row["task_id"]: row for row in rows}


def tasks_without_drivers(session: CompiledSession) -> dict[str, dict[str, Any]]:
    """Ours, as the live answer has them; never none."""
    found = {r["task_id"]: r for r in compiled_tasks(session) if r["type"] != "DRIVER_TASK"}
    assert found
    return found


def test_every_task_is_there_and_no_other(version: Version, session: CompiledSession) -> None:
    """The same attempts as live, none lost and none made up."""
    assert tasks_without_drivers(session).keys() == live_tasks(version).keys()


def test_columns_equal_the_live_answer(version: Version, session: CompiledSession) -> None:
    """Every column of every attempt equals live, but for the place that Ray does not tell."""
    live = live_tasks(version)
    for task_id, row in tasks_without_drivers(session).items():
        expected = live[task_id]
        derived = row["detail"].is_place_derived
        assert derived == (row["type"] == "ACTOR_CREATION_TASK")
        assert {
            "state": row["state"],
            "type": row["type"],
            "name": row["name"],
            "func_or_class_name": row["func"],
            "language": row["language"],
            "job_id": row["job"],
            "actor_id": row["actor"],
            "parent_task_id": row["parent"],
            "placement_group_id": row["placement_group"],
            "node_id": None if derived else row["node"],
            "worker_id": None if derived else row["worker"],
            "worker_pid": row["pid"],
            "error_type": row["error_type"],
            "required_resources": json.loads(row["required_resources"]),
            "label_selector": json.loads(row["label_selector"]),
            "call_site": row["call_site"],
            "creation_time_ms": row["creation_ms"],
            "start_time_ms": row["start_ms"],
            "end_time_ms": row["end_ms"],
            "attempt_number": row["attempt"],
            "serialized_runtime_env": row["runtime_env"],
        } == {
            **{key: expected[key] for key in expected if key in _COMPARED},
            "serialized_runtime_env": expected["runtime_env_info"]["serialized_runtime_env"],
        }


_COMPARED = {
    "state", "type", "name", "func_or_class_name", "language", "job_id", "actor_id",
    "parent_task_id", "placement_group_id", "node_id", "worker_id", "worker_pid", "error_type",
    "required_resources", "label_selector", "call_site", "creation_time_ms", "start_time_ms",
    "end_time_ms", "attempt_number",
}  # fmt: skip


def test_log_offsets_that_ray_lost_are_found_again(
    version: Version, session: CompiledSession
) -> None:
    """File, start and end of every attempt's output equal live, though the events lack the start."""
    live = live_tasks(version)
    for task_id, row in tasks_without_drivers(session).items():
        info: LogInfo | None = row["detail"].log_info
        expected = live[task_id]["task_log_info"]
        assert expected == (
            None
            if info is None
            else {name: getattr(info, name) for name in LogInfo.__struct_fields__}
        )


def test_transitions_and_errors_equal_the_live_answer(
    version: Version, session: CompiledSession
) -> None:
    """States with their times, and the message of the failed task, equal live."""
    live = live_tasks(version)
    for task_id, row in tasks_without_drivers(session).items():
        detail = row["detail"]
        assert [
            {"state": state, "created_ms": ns // 1_000_000} for state, ns in detail.transitions
        ] == live[task_id]["events"]
        message = ANSI.sub("", detail.error_message) or None
        assert message == live[task_id]["error_message"]


def test_profiles_equal_the_live_answer(version: Version, session: CompiledSession) -> None:
    """The spans of every attempt equal live, in the same order."""
    live = live_tasks(version)
    for task_id, row in tasks_without_drivers(session).items():
        (profile,) = row["detail"].profiles
        expected = live[task_id]["profiling_data"]
        assert (profile.component_type, profile.component_id, profile.node_ip) == (
            expected["component_type"],
            expected["component_id"],
            expected["node_ip_address"],
        )
        assert [
            {
                "event_name": span.name,
                "start_time": span.start_ns / 1e6,
                "end_time": span.end_ns / 1e6,
                "extra_data": json.loads(span.extra_json),
            }
            for span in profile.events
        ] == expected["events"]


def test_lineage_equals_the_live_answer(version: Version, session: CompiledSession) -> None:
    """The prepared progress tree is, field by field, what live Ray answered."""
    rows = dict(session.connection().execute("SELECT name, body FROM rendered"))
    job = kuberay_live(version, "jobs")[0]["job_id"]
    assert json.loads(gzip.decompress(rows[f"lineage:{job}"])) == kuberay_live(version, "lineage")
    assert "lineage:" in rows


def test_actors_equal_the_live_answer(version: Version, session: CompiledSession) -> None:
    """Place, process, names and cause of death of each actor equal live."""
    live = kuberay_live(version, "actors")["data"]["actors"]
    actors = {actor.actor_id: actor for actor in compiled_records(session)["actors"]}
    assert actors.keys() == live.keys()
    for actor_id, actor in actors.items():
        expected = live[actor_id]
        assert expected["address"] == {
            "nodeId": actor.node_id,
            "ipAddress": actor.ip_address,
            "port": actor.port,
            "workerId": actor.worker_id,
        }
        assert (actor.pid, actor.state, actor.name, actor.class_name, actor.job_id) == tuple(
            expected[key] for key in ("pid", "state", "name", "className", "jobId")
        )
        assert actor.start_ns // 1_000_000 == expected["startTime"]
        assert abs(actor.end_ns // 1_000_000 - expected["endTime"]) <= 5  # another clock reading
        assert expected["exitDetail"] in actor.death_cause_json
        assert actor.closed_state == ""


def test_nodes_equal_the_live_answer_and_are_closed(
    version: Version, session: CompiledSession
) -> None:
    """Nodes carry what live told; the head, whose end Ray never tells, is marked as closed."""
    live = {
        row["node_id"]: row for row in kuberay_live(version, "v0_nodes")["data"]["result"]["result"]
    }
    nodes = {node.node_id: node for node in compiled_records(session)["nodes"]}
    assert nodes.keys() == live.keys()
    for node_id, node in nodes.items():
        expected = live[node_id]
        assert (node.ip_address, node.node_name, node.is_head, node.labels) == tuple(
            expected[key] for key in ("node_ip", "node_name", "is_head_node", "labels")
        )
        assert node.resources_total == expected["resources_total"]
        assert node.start_ns // 1_000_000 == expected["start_time_ms"]
        assert (node.state, node.closed_state) == ("DEAD", "ALIVE")


def test_versions_come_from_the_stored_cluster_metadata(session: CompiledSession) -> None:
    """Ray's and Python's versions are known without a collector of ours."""
    assert (session.meta.ray_version, session.meta.python_version) == ("2.55.1", "3.11.2")
