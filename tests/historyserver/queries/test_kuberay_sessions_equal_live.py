"""What KubeRay's released collectors stored, read back, equals what the live dashboard answered.

`DIFFERENCES` lists every field that differs, with the reason. The test fails when a field that
is not listed differs, and when a listed one does not: so the list is exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.queries import actors, jobs, nodes, placement_groups, timeline
from historyserver.queries.lineage import prepared_lineage, summary_by_lineage
from historyserver.queries.options import ListOptions
from historyserver.queries.task_summaries import summary_by_function
from tests.harness.compiled_samples import (
    Version,
    compile_events,
    compile_kuberay_sample,
    kuberay_live,
    kuberay_samples,
)
from tests.historyserver.queries.comparing import different_fields, unpacked
from tests.historyserver.queries.task_lists import list_tasks

ALL = ListOptions(detail=True, limit=10_000)

NO_SNAPSHOT = "KubeRay's collector does not keep this answer"
HARDWARE = "figures of the machine are in no event"
ENDED = "the session is over; the dashboard was asked while it ran"
GCS_CLOCK = "the event has its own time, some milliseconds after GCS's"
SUBMISSION_CLOCK = "taken from the supervisor actor, some milliseconds after the dashboard's"
MORE_THAN_RAY = "Ray leaves it out; here it comes from the actor's ALIVE event"

_RAYLET_PORTS = (
    "dashboardAgentListenPort", "metricsAgentPort", "metricsExportPort", "nodeManagerPort",
    "objectManagerPort", "objectStoreSocketName", "rayletSocketName", "runtimeEnvAgentPort",
)  # fmt: skip
_RAYLET_FIGURES = ("coreWorkersStats", "numWorkers", "stateSnapshot", "storeStats")
_FIGURES = (
    "agent", "bootTime", "cmdline", "cpu", "cpus", "disk", "diskIo", "diskIoSpeed", "gcs",
    "loadAvg", "mem", "network", "networkSpeed", "now", "shm",
)  # fmt: skip

DIFFERENCES: set[tuple[str, str, str]] = {
    ("tasks", "node_id", MORE_THAN_RAY),
    ("tasks", "worker_id", MORE_THAN_RAY),
    ("actors", "mem", HARDWARE),
    ("actors", "endTime", GCS_CLOCK),
    ("actors", "timestamp", GCS_CLOCK),
    ("jobs", "driver_agent_http_address", HARDWARE),
    ("jobs", "start_time", SUBMISSION_CLOCK),
    ("jobs", "end_time", SUBMISSION_CLOCK),
    ("v0_nodes", "state", ENDED),
    ("v0_nodes", "state_message", ENDED),
    ("v0_nodes", "end_time_ms", ENDED),
    ("nodes", "raylet.stateMessage", ENDED),
    ("nodes", "nodeLogicalResources", HARDWARE),
    *(("nodes", name, HARDWARE) for name in _FIGURES),
    *(("nodes", f"raylet.{name}", HARDWARE) for name in _RAYLET_PORTS + _RAYLET_FIGURES),
}
ONLY_V162: set[tuple[str, str, str]] = {("pgs", "", NO_SNAPSHOT)}


@pytest.fixture(params=["v162", "v170"])
def version(request: pytest.FixtureRequest) -> Version:
    """The KubeRay release whose collector wrote the session."""
    found: Version = request.param
    return found


@pytest.fixture
def session(version: Version, tmp_path: Path) -> Iterator[CompiledSession]:
    """The session, compiled."""
    session = compile_kuberay_sample(version, tmp_path / "compiled")
    yield session
    session.close()


def live_rows(version: Version, name: str) -> list[dict[str, Any]]:
    """The rows of a State API answer of the live dashboard."""
    rows: list[dict[str, Any]] = kuberay_live(version, name)["data"]["result"]["result"]
    return rows


def rows(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a State API answer of ours."""
    found: list[dict[str, Any]] = answer["data"]["result"]["result"]
    return found


def compared_lists(
    session: CompiledSession, version: Version
) -> dict[str, tuple[list[Any], list[Any], Any]]:
    """Ours, the live dashboard's, and what tells rows apart."""
    live_nodes = kuberay_live(version, "nodes")["data"]
    our_nodes = nodes.node_summary(session)["data"]
    live_actors = kuberay_live(version, "actors")["data"]["actors"]
    return {
        "tasks": (
            rows(list_tasks(session, ALL)),
            live_rows(version, "tasks"),
            lambda row: (row["task_id"], row["attempt_number"]),
        ),
        "actors": (
            list(actors.actor_table(session)["data"]["actors"].values()),
            list(live_actors.values()),
            lambda row: row["actorId"],
        ),
        "jobs": (
            jobs.all_jobs(session) + rows(jobs.list_jobs(session, ALL)),
            kuberay_live(version, "jobs") + live_rows(version, "jobs_v0"),
            lambda row: row["submission_id"],
        ),
        "v0_nodes": (
            rows(nodes.list_nodes(session, ALL)),
            live_rows(version, "v0_nodes"),
            lambda row: row["node_id"],
        ),
        "nodes": (our_nodes["summary"], live_nodes["summary"], lambda n: n["raylet"]["nodeId"]),
        "pgs": (
            rows(placement_groups.list_placement_groups(session, ALL)),
            live_rows(version, "pgs"),
            lambda row: row["placement_group_id"],
        ),
    }


def test_every_field_that_differs_is_known_with_its_reason(
    session: CompiledSession, version: Version
) -> None:
    """All lists are compared, row by row and field by field, in both directions."""
    found = {
        (name, field)
        for name, (ours, live, identity) in compared_lists(session, version).items()
        for field in different_fields(ours, live, identity)
    }
    resources = nodes.node_summary(session)["data"]["nodeLogicalResources"]
    if resources != kuberay_live(version, "nodes")["data"]["nodeLogicalResources"]:
        found.add(("nodes", "nodeLogicalResources"))
    known = DIFFERENCES | (ONLY_V162 if version == "v162" else set())
    assert found == {(name, field) for name, field, _ in known}


def test_envelope_of_tasks_equals_live(session: CompiledSession, version: Version) -> None:
    """Totals and warnings are Ray's."""
    ours = list_tasks(session, ALL)["data"]["result"]
    live = kuberay_live(version, "tasks")["data"]["result"]
    del ours["result"], live["result"]
    assert ours == live


def test_summary_by_function_equals_live(session: CompiledSession, version: Version) -> None:
    """Names, types, states and totals."""
    assert summary_by_function(session, ()) == kuberay_live(version, "summarize")


def test_summary_by_lineage_equals_live(session: CompiledSession, version: Version) -> None:
    """The prepared one and one made now, with order, groups, times and links."""
    live = kuberay_live(version, "lineage")
    prepared = prepared_lineage(session, ())
    assert prepared is not None
    assert json.loads(unpacked(prepared)) == live
    assert msgspec.to_builtins(summary_by_lineage(session, ())) == live


def test_timeline_equals_live(session: CompiledSession, version: Version) -> None:
    """Every span with times, colours and arguments; tracks by name, since numbers are arbitrary."""
    ours = json.loads(b"".join(timeline.timeline(session, None)))
    assert _spans(ours) == _spans(kuberay_live(version, "timeline"))


@pytest.mark.parametrize("backwards", [False, True])
def test_errors_of_failed_tasks_do_not_depend_on_file_order(
    tmp_path: Path, backwards: bool
) -> None:
    """KubeRay's server lost them when the head's node id sorts before the worker's (fault 1)."""
    files = sorted((kuberay_samples() / "tree" / "cluster-history").rglob("*.jsonl"))
    events = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    session = compile_events(events[::-1] if backwards else events, tmp_path / "compiled")
    (failed,) = [row for row in rows(list_tasks(session, ALL)) if row["state"] == "FAILED"]
    session.close()
    assert failed["error_type"] == "TASK_EXECUTION_EXCEPTION"
    assert "this task fails on purpose" in failed["error_message"]


def test_nodes_and_actors_of_a_dead_session_are_dead(session: CompiledSession) -> None:
    """KubeRay's server shows them ALIVE for ever (fault 9)."""
    assert {row["state"] for row in rows(nodes.list_nodes(session, ALL))} == {"DEAD"}
    assert {row["state"] for row in rows(actors.list_actors(session, ALL))} == {"DEAD"}


def test_logs_page_still_lists_the_nodes(session: CompiledSession) -> None:
    """Ray's Logs page shows only ALIVE nodes, so the dashboard's view keeps them, with a message."""
    raylets = [node["raylet"] for node in nodes.node_summary(session)["data"]["summary"]]
    assert {raylet["state"] for raylet in raylets} == {"ALIVE"}
    assert all("session ended" in raylet["stateMessage"] for raylet in raylets)


def test_actors_have_the_address_of_their_alive_event(session: CompiledSession) -> None:
    """KubeRay's server answers pid 0, no ip and no port (fault 9)."""
    found = actors.actor_table(session)["data"]["actors"].values()
    assert found
    for actor in found:
        address = actor["address"]
        assert actor["pid"] > 0
        assert address["port"] > 0
        assert address["ipAddress"].startswith("10.")
        assert len(address["workerId"]) == len(address["nodeId"]) == 56


def test_finished_job_has_status_and_runtime_env(
    session: CompiledSession, version: Version
) -> None:
    """KubeRay's server leaves both empty (fault 9)."""
    (job,) = jobs.all_jobs(session)
    assert job["status"] == "SUCCEEDED"
    assert job["message"] == "Job finished successfully."
    assert job["driver_exit_code"] == 0
    assert job["runtime_env"] == {"env_vars": {"DB_PASSWORD": "not-a-real-one", "PLAIN": "v"}}
    assert abs(job["start_time"] - kuberay_live(version, "jobs")[0]["start_time"]) < 100
    assert abs(job["end_time"] - kuberay_live(version, "jobs")[0]["end_time"]) < 100


def _spans(trace: list[dict[str, Any]]) -> list[str]:
    processes = {e["pid"]: e["args"]["name"] for e in trace if e["name"] == "process_name"}
    threads = {e["tid"]: e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    return sorted(
        json.dumps({**e, "pid": processes[e["pid"]], "tid": threads[e["tid"]]}, sort_keys=True)
        for e in trace
        if e["ph"] == "X"
    )
