"""Actors: events and snapshots joined, each where it is right."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.closing import Closing
from historyserver.folding.records import ActorRecord
from historyserver.queries import actors
from historyserver.queries.options import EQUAL, Filter, ListOptions
from storage import endpoints
from tests.historyserver.queries.ray_answers import live
from tests.historyserver.queries.session_builder import (
    END_MS,
    JOB,
    NODE_A,
    NODE_B,
    START_MS,
    WORKER,
    build,
)

NS = 1_000_000
ACTOR = "ab" * 12 + JOB
OTHER = "cd" * 12 + JOB
DETAIL = ListOptions(detail=True)


def record(**changes: Any) -> ActorRecord:
    """An actor that lived, restarted once and died of a kill."""
    known: dict[str, Any] = {
        "actor_id": ACTOR,
        "job_id": JOB,
        "name": "counter",
        "class_name": "Counter",
        "ray_namespace": "lab",
        "state": "DEAD",
        "node_id": NODE_A,
        "worker_id": WORKER,
        "ip_address": "10.0.0.1",
        "pid": 77,
        "port": 10005,
        "num_restarts": 1,
        "start_ns": START_MS * NS,
        "end_ns": (START_MS + 5000) * NS,
        "required_resources": {"CPU": 0.5},
        "death_cause_json": json.dumps(
            {
                "actorDiedErrorContext": {
                    "errorMessage": "killed by `ray.kill`.",
                    "actorId": base64.b64encode(bytes.fromhex(ACTOR)).decode(),
                    "reason": "RAY_KILL",
                    "neverStarted": False,
                }
            }
        ),
        "transitions": [("ALIVE", START_MS * NS), ("DEAD", (START_MS + 5000) * NS)],
    }
    return ActorRecord(**(known | changes))


def one(session: CompiledSession, actor_id: str = ACTOR) -> dict[str, Any]:
    """The dashboard's detail of one actor."""
    found: dict[str, Any] = actors.actor_detail(session, actor_id)["data"]["detail"]
    return found


def state_row(session: CompiledSession) -> dict[str, Any]:
    """The State API's row of the only actor."""
    (found,) = actors.list_actors(session, DETAIL)["data"]["result"]["result"]
    checked: dict[str, Any] = found
    return checked


def test_dead_actor_keeps_address_restarts_and_cause(tmp_path: Path) -> None:
    """KubeRay's server answers no pid, ip or port (fault 9)."""
    session = build(tmp_path / "s", actors=[record()])
    actor = one(session)
    assert actor["address"] == {
        "nodeId": NODE_A, "ipAddress": "10.0.0.1", "port": 10005, "workerId": WORKER,
    }  # fmt: skip
    assert (actor["pid"], actor["state"], actor["numRestarts"]) == (77, "DEAD", "1")
    assert (actor["startTime"], actor["endTime"]) == (START_MS, START_MS + 5000)
    assert actor["exitDetail"] == "killed by `ray.kill`."
    row = state_row(session)
    assert row["death_cause"] == {
        "actor_died_error_context": {
            "error_message": "killed by `ray.kill`.",
            "actor_id": ACTOR,
            "reason": "RAY_KILL",
            "never_started": False,
        }
    }


def test_columns_are_rays(tmp_path: Path) -> None:
    """With and without detail; both dashboard views."""
    session = build(tmp_path / "s", actors=[record()])
    detailed, plain = live("state_actors"), live("state_actors_nodetail")
    assert set(state_row(session)) == set(detailed["data"]["result"]["result"][0])
    (row,) = actors.list_actors(session, ListOptions())["data"]["result"]["result"]
    assert set(row) == set(plain["data"]["result"]["result"][0])
    assert set(one(session)) == set(live("logical_actor_detail_DEAD")["data"]["detail"])


def test_snapshot_adds_what_events_do_not_tell(tmp_path: Path) -> None:
    """Executed tasks, memory, resources in use; the event's state wins over an older snapshot."""
    body = live("logical_actor_detail_ALIVE")["data"]["detail"]
    session = build(
        tmp_path / "s",
        actors=[record()],
        snapshots={(endpoints.ACTOR_TABLE, ACTOR): {**body, "actorId": ACTOR}},
    )
    actor = one(session)
    assert (actor["numExecutedTasks"], actor["mem"]) == (body["numExecutedTasks"], body["mem"])
    assert actor["processStats"]["pid"] == body["processStats"]["pid"]
    assert (actor["state"], actor["pid"], actor["className"]) == ("DEAD", 77, "Counter")


def test_actor_that_the_session_outlived_is_closed_with_a_message(tmp_path: Path) -> None:
    """DEAD, with words that say what is not known."""
    actor = record(state="ALIVE", end_ns=0, death_cause_json="")
    Closing(END_MS).close_actor(actor)
    session = build(tmp_path / "s", actors=[actor])
    assert one(session)["state"] == state_row(session)["state"] == "DEAD"
    assert "session ended" in one(session)["exitDetail"]
    assert "ALIVE" in one(session)["exitDetail"]
    assert one(session)["endTime"] == END_MS


def test_death_that_only_a_snapshot_tells_is_believed(tmp_path: Path) -> None:
    """The event was lost, the dashboard had seen it: its cause and time stand."""
    actor = record(state="ALIVE", end_ns=0, death_cause_json="")
    Closing(END_MS).close_actor(actor)
    died = live("logical_actor_detail_DEAD")["data"]["detail"]
    session = build(
        tmp_path / "s", actors=[actor], snapshots={(endpoints.ACTOR_TABLE, ACTOR): died}
    )
    assert "ray.kill" in one(session)["exitDetail"]
    assert one(session)["endTime"] == died["endTime"]


def test_times_of_a_snapshot_are_gcs_own(tmp_path: Path) -> None:
    """Events are stamped some milliseconds later; a snapshot of an earlier life does not count."""
    gcs = {"state": "DEAD", "numRestarts": "1", "startTime": 5, "endTime": 7, "timestamp": 8.0}
    for numbers, expected in (
        (gcs, (5, 7, 8.0)),
        ({**gcs, "state": "ALIVE", "endTime": 0}, (5, START_MS + 5000, START_MS + 5000.0)),
        ({**gcs, "numRestarts": "0"}, (START_MS, START_MS + 5000, START_MS + 5000.0)),
    ):
        path = tmp_path / "-".join(map(str, expected))
        kept = {(endpoints.ACTOR_TABLE, ACTOR): numbers}
        actor = one(build(path, actors=[record()], snapshots=kept))
        assert (actor["startTime"], actor["endTime"], actor["timestamp"]) == expected


def test_actor_that_never_lived_has_no_timestamp(tmp_path: Path) -> None:
    """As in Ray: 0.0."""
    waiting = record(
        state="PENDING_CREATION", start_ns=0, end_ns=0, pid=0, death_cause_json="",
        transitions=[("DEPENDENCIES_UNREADY", START_MS * NS), ("PENDING_CREATION", START_MS * NS)],
    )  # fmt: skip
    actor = one(build(tmp_path / "s", actors=[waiting], state="running"))
    assert (actor["timestamp"], actor["startTime"], actor["state"]) == (0.0, 0, "PENDING_CREATION")


def test_actor_known_from_one_snapshot_shows_in_both_views(tmp_path: Path) -> None:
    """Its events were lost; neither view may lack it."""
    table = live("logical_actor_detail_DEAD")["data"]["detail"]
    session = build(tmp_path / "a", snapshots={(endpoints.ACTOR_TABLE, table["actorId"]): table})
    row = state_row(session)
    assert (row["actor_id"], row["state"], row["class_name"]) == (
        table["actorId"],
        "DEAD",
        table["className"],
    )
    state = live("state_actors")["data"]["result"]["result"][0]
    session = build(tmp_path / "b", snapshots={(endpoints.ACTORS, state["actor_id"]): state})
    entry = one(session, state["actor_id"])
    assert (entry["actorId"], entry["className"]) == (state["actor_id"], state["class_name"])
    assert set(entry) >= set(live("logical_actor_detail_DEAD")["data"]["detail"])


def test_unknown_actor_is_null(tmp_path: Path) -> None:
    """As in Ray, for one and for several ids."""
    session = build(tmp_path / "s", actors=[record()])
    assert actors.actor_detail(session, "ab" * 16) == live("logical_actor_unknown")
    table = actors.actor_table(session, [ACTOR, "nosuch"])["data"]["actors"]
    assert table[ACTOR]["name"] == "counter"
    assert table["nosuch"] is None


def test_placement_group_resources_show_under_their_own_names(tmp_path: Path) -> None:
    """As the dashboard shows them; the State API keeps Ray's names."""
    resources = {
        "CPU_group_0_c28db15ee757702d0f0b9cda61b703000000": 0.5,
        "CPU_group_c28db15ee757702d0f0b9cda61b703000000": 0.5,
        "bundle_group_0_c28db15ee757702d0f0b9cda61b703000000": 0.001,
        "my_group_thing": 1.0,
    }
    session = build(tmp_path / "s", actors=[record(required_resources=resources)])
    assert one(session)["requiredResources"] == {"CPU": 0.5, "my_group_thing": 1.0}
    assert state_row(session)["required_resources"] == resources


def test_filters_and_summary(tmp_path: Path) -> None:
    """By state and class, counted over all."""
    other = record(actor_id=OTHER, class_name="Other", node_id=NODE_B, pid=5)
    session = build(tmp_path / "s", actors=[record(), other])
    chosen = ListOptions(filters=(Filter("class_name", EQUAL, "other"), Filter("pid", EQUAL, "5")))
    answer = actors.list_actors(session, chosen)["data"]["result"]
    assert (answer["total"], answer["num_filtered"]) == (2, 1)
    summary = actors.summarize_actors(session, ())["data"]["result"]["result"]
    cluster = summary["node_id_to_summary"]["cluster"]
    assert cluster["summary"]["Counter"] == {"class_name": "Counter", "state_counts": {"DEAD": 1}}
    assert cluster["total_actors"] == 2


@pytest.mark.parametrize("cause", ["", "{", "[]", "null", '{"actorDiedErrorContext": "x"}'])
def test_odd_death_causes_never_break_the_answer(tmp_path: Path, cause: str) -> None:
    """They show as no cause."""
    session = build(tmp_path / "s", actors=[record(death_cause_json=cause)])
    assert one(session)["exitDetail"] == "-"
    assert "death_cause" in state_row(session)
