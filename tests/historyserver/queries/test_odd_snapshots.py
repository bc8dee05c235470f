"""Snapshots of another shape than Ray's: the odd field is left out, and the rest answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import ActorRecord, JobRecord, NodeRecord, WorkerRecord
from historyserver.queries import (
    actors,
    cluster,
    fitting,
    jobs,
    nodes,
    objects,
    placement_groups,
    runtime_envs,
    workers,
)
from historyserver.queries.options import Filter, ListOptions
from storage import endpoints
from tests.historyserver.queries.session_builder import JOB, NODE_A, WORKER, build

ACTOR = "ac" * 16
ALL = ListOptions(detail=True, limit=10_000)
ODD = [None, 5, True, 1.5, "x", "\0", "9" * 30, "😀", [], [None], {}, {"a": {"b": 1}}]
COLLECTIONS = {
    endpoints.ACTOR_TABLE: (ACTOR, fitting.ACTOR_TABLE),
    endpoints.ACTORS: (ACTOR, fitting.STATE_ACTORS),
    endpoints.NODE_SUMMARY: (NODE_A, fitting.NODE_SUMMARY),
    endpoints.NODES: (NODE_A, fitting.STATE_NODES),
    endpoints.WORKERS: (WORKER, fitting.STATE_WORKERS),
    endpoints.PLACEMENT_GROUPS: ("9a" * 18, fitting.PLACEMENT_GROUPS),
    endpoints.JOBS: (JOB, fitting.JOBS),
}
WHOLE = [
    endpoints.OBJECTS, endpoints.RUNTIME_ENVS, endpoints.CLUSTER_STATUS,
    endpoints.CLUSTER_STATUS_TEXT, endpoints.CLUSTER_METADATA, endpoints.COMPONENT_ACTIVITIES,
    endpoints.NODE_SUMMARY, endpoints.node_detail(NODE_A),
]  # fmt: skip


def session_with(
    path: Path, stored: dict[tuple[str, str], Any], *, known: bool = True
) -> CompiledSession:
    """A session whose entities events tell of, or snapshots alone."""
    return build(
        path / "s.sqlite",
        actors=[ActorRecord(actor_id=ACTOR, class_name="A", state="DEAD")] if known else [],
        nodes=[NodeRecord(node_id=NODE_A, state="DEAD")] if known else [],
        workers=[WorkerRecord(worker_id=WORKER)] if known else [],
        jobs=[JobRecord(job_id=JOB)] if known else [],
        snapshots=stored,
    )


def ask_everything(session: CompiledSession) -> None:
    """Every query that reads snapshots answers in its own shape, in JSON that a browser reads."""
    number = ListOptions(filters=(Filter("pid", ">", "5"),))
    lists = [
        query(session, options)
        for options in (ALL, number)
        for query in (actors.list_actors, workers.list_workers, objects.list_objects)
    ]
    lists += [
        query(session, ALL)
        for query in (
            nodes.list_nodes,
            jobs.list_jobs,
            placement_groups.list_placement_groups,
            runtime_envs.list_runtime_envs,
        )
    ]
    for found in lists:
        result = found["data"]["result"]
        assert all(isinstance(row, dict) for row in result["result"])
        assert result["total"] >= result["num_filtered"] >= len(result["result"])
    shown: list[Any] = [
        actors.actor_table(session),
        actors.actor_detail(session, ACTOR),
        actors.summarize_actors(session, ()),
        objects.summarize_objects(session, ()),
        nodes.node_summary(session),
        nodes.node_detail(session, NODE_A),
    ]
    for found in [*lists, *shown]:
        assert found["result"] is True
        assert isinstance(found["data"], dict)
    as_stored = [
        cluster.cluster_status(session),
        cluster.cluster_status_text(session),
        cluster.cluster_metadata(session),
        cluster.component_activities(session),
    ]
    assert all(isinstance(found, dict) for found in as_stored)
    json.dumps([lists, shown, as_stored], allow_nan=False)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_any_value_in_any_field_is_answered(tmp_path: Path, value: object, known: bool) -> None:
    """Every field of every collection holds the same odd value."""
    stored = {
        (name, item): dict.fromkeys(kinds, value) for name, (item, kinds) in COLLECTIONS.items()
    }
    rows = {"data": {"result": {"result": [dict.fromkeys(fitting.OBJECTS, value), value]}}}
    ask_everything(session_with(tmp_path, stored | {(WHOLE[0], ""): rows}, known=known))


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_items_that_are_no_objects_are_left_out(tmp_path: Path, value: object) -> None:
    """An actor that is a number is no actor."""
    stored = {(name, item): value for name, (item, _) in COLLECTIONS.items()}
    session = session_with(tmp_path, stored)
    ask_everything(session)
    assert list(actors.actor_table(session)["data"]["actors"]) == [ACTOR]


@pytest.mark.parametrize(
    "body",
    [*ODD, {"data": None}, {"data": []}, {"data": {"result": 5}},
     {"data": {"result": {"result": 5}}}, {"data": {"detail": {"raylet": 5}}},
     {"data": {"nodeLogicalResources": 5}}],
    ids=repr,
)  # fmt: skip
def test_answers_of_any_shape_are_answered(tmp_path: Path, body: object) -> None:
    """Those that are kept whole."""
    ask_everything(session_with(tmp_path, {(name, ""): body for name in WHOLE}))


def test_an_odd_field_does_not_hide_the_others(tmp_path: Path) -> None:
    """Only what is of another kind goes."""
    entry = {"className": "A", "pid": "x", "numRestarts": [], "reprName": "it"}
    session = session_with(tmp_path, {(endpoints.ACTOR_TABLE, ACTOR): entry})
    found = actors.actor_detail(session, ACTOR)["data"]["detail"]
    assert (found["reprName"], found["pid"], found["numRestarts"]) == ("it", 0, "0")
