"""What only the dashboard knows comes back as it was, in detail and without, as Ray shapes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.queries import (
    actors,
    cluster,
    jobs,
    nodes,
    objects,
    placement_groups,
    runtime_envs,
    workers,
)
from historyserver.queries.options import EQUAL, NOT_EQUAL, Filter, ListOptions
from storage import endpoints
from tests.historyserver.queries.ray_answers import as_snapshot, live
from tests.historyserver.queries.session_builder import build

DETAIL = ListOptions(detail=True, limit=10_000)
PLAIN = ListOptions()

KEPT = {
    endpoints.ACTORS: "state_actors",
    endpoints.NODES: "state_nodes",
    endpoints.WORKERS: "state_workers",
    endpoints.OBJECTS: "state_objects",
    endpoints.RUNTIME_ENVS: "state_runtime_envs",
    endpoints.PLACEMENT_GROUPS: "state_placement_groups",
    endpoints.JOBS: "jobs_list",
    endpoints.CLUSTER_STATUS: "cluster_status",
    endpoints.CLUSTER_STATUS_TEXT: "cluster_status_format1",
    endpoints.CLUSTER_METADATA: "cluster_metadata",
    endpoints.COMPONENT_ACTIVITIES: "component_activities",
}


@pytest.fixture
def session(tmp_path: Path) -> CompiledSession:
    """A running session of which only snapshots are known."""
    kept: dict[tuple[str, str], Any] = {}
    for name, sample in KEPT.items():
        kept |= as_snapshot(name, live(sample))
    return build(tmp_path / "compiled", snapshots=kept, state="running")


Lister = Callable[[CompiledSession, ListOptions], dict[str, Any]]

LISTS: list[tuple[Lister, str]] = [
    (actors.list_actors, "state_actors"),
    (nodes.list_nodes, "state_nodes"),
    (workers.list_workers, "state_workers"),
    (objects.list_objects, "state_objects"),
    (placement_groups.list_placement_groups, "state_placement_groups"),
    (runtime_envs.list_runtime_envs, "state_runtime_envs"),
    (jobs.list_jobs, "state_jobs"),
]


@pytest.mark.parametrize("lister, sample", LISTS, ids=[name for _, name in LISTS])
def test_list_equals_ray(lister: Lister, sample: str, session: CompiledSession) -> None:
    """Rows, order, columns, totals and warnings, with and without detail."""
    assert lister(session, DETAIL) == live(sample)
    plain = live(f"{sample}_nodetail")
    ours = lister(session, PLAIN)
    # Ray reads two lists at different moments; what may have changed between is from the first.
    assert _columns(ours) == _columns(plain)
    assert _totals(ours) == _totals(plain)


@pytest.mark.parametrize(
    "summarize, sample",
    [
        (actors.summarize_actors, "actors_summarize"),
        (objects.summarize_objects, "objects_summarize"),
    ],
)
def test_summary_equals_ray(
    summarize: Callable[[CompiledSession, tuple[Filter, ...]], dict[str, Any]],
    sample: str,
    session: CompiledSession,
) -> None:
    """Counts, sizes and totals."""
    assert summarize(session, ()) == live(sample)


@pytest.mark.parametrize(
    "ask, sample",
    [
        (jobs.all_jobs, "jobs_list"),
        (cluster.cluster_status, "cluster_status"),
        (cluster.cluster_status_text, "cluster_status_format1"),
        (cluster.cluster_metadata, "cluster_metadata"),
        (cluster.component_activities, "component_activities"),
    ],
)
def test_whole_answer_equals_ray(
    ask: Callable[[CompiledSession], Any], sample: str, session: CompiledSession
) -> None:
    """Answers that are kept whole, and the bare list of jobs."""
    assert ask(session) == live(sample)


def test_job_is_found_by_both_of_its_ids(session: CompiledSession) -> None:
    """By submission id and by the driver's job id, as in Ray."""
    expected = live("job_detail_submission")
    assert jobs.one_job(session, "labjob2") == expected
    assert jobs.one_job(session, "02000000") == expected
    assert jobs.one_job(session, "nope") is None


def test_filters_and_limits_are_applied_to_snapshots(session: CompiledSession) -> None:
    """Text without case, booleans, numbers; the total stays Ray's."""
    dead = ListOptions(filters=(Filter("state", EQUAL, "dead"),), limit=1)
    answer = actors.list_actors(session, dead)["data"]["result"]
    assert (answer["total"], answer["num_filtered"], len(answer["result"])) == (14, 3, 1)
    head = ListOptions(filters=(Filter("is_head_node", EQUAL, "True"),))
    assert len(nodes.list_nodes(session, head)["data"]["result"]["result"]) == 1
    detached = ListOptions(filters=(Filter("is_detached", NOT_EQUAL, "1"),))
    groups = placement_groups.list_placement_groups(session, detached)["data"]["result"]["result"]
    assert [group["name"] for group in groups] == ["lab_pg"]
    pid = ListOptions(filters=(Filter("pid", EQUAL, "3182"), Filter("type", EQUAL, "driver")))
    found = objects.list_objects(session, pid)["data"]["result"]
    assert found["total"] == 28
    assert 0 < found["num_filtered"] < 26
    assert {row["pid"] for row in found["result"]} == {3182}


def test_without_snapshots_lists_are_empty_not_errors(tmp_path: Path) -> None:
    """KubeRay's collectors keep almost none of them."""
    empty = build(tmp_path / "empty")
    for lister, _ in LISTS:
        answer = lister(empty, DETAIL)["data"]["result"]
        assert (answer["total"], answer["num_filtered"], answer["result"]) == (0, 0, [])
    assert objects.summarize_objects(empty, ())["result"] is True


def test_what_a_snapshot_saw_alive_is_closed_when_the_session_is_over(tmp_path: Path) -> None:
    """Actors, nodes and workers without events cannot outlive the session."""
    kept: dict[tuple[str, str], Any] = {}
    for name in (endpoints.ACTORS, endpoints.NODES, endpoints.WORKERS):
        kept |= as_snapshot(name, live(KEPT[name]))
    over = build(tmp_path / "over", snapshots=kept, state="ended")
    found = actors.list_actors(over, DETAIL)["data"]["result"]["result"]
    assert {row["state"] for row in found} == {"DEAD"}
    causes = [str(row["death_cause"]) for row in found]
    assert sum("session ended" in cause for cause in causes) == 11
    assert sum("ray.kill" in cause for cause in causes) == 1
    found = nodes.list_nodes(over, DETAIL)["data"]["result"]["result"]
    assert {row["state"] for row in found} == {"DEAD"}
    found = workers.list_workers(over, DETAIL)["data"]["result"]["result"]
    assert not any(row["is_alive"] for row in found)
    assert all("session ended" in row["exit_detail"] for row in found if not row["exit_type"])


def _columns(answer: dict[str, Any]) -> set[str]:
    return {name for row in answer["data"]["result"]["result"] for name in row}


def _totals(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer["data"]["result"].items() if name != "result"}
