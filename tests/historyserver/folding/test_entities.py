"""Actors, jobs, nodes and workers from their events."""

from __future__ import annotations

import json

from historyserver.folding.records import ActorRecord
from tests.harness.compiled_samples import ray_sample_events
from tests.historyserver.folding.folded import Json, fold
from tests.historyserver.folding.test_task_attempts import (
    ACTOR,
    JOB,
    NODE,
    WORKER,
    alive,
    at,
    b64,
    event,
)


def steps(*states: tuple[str, float]) -> Json:
    """An actor's lifecycle."""
    found = [{"state": state, "timestamp": at(second)} for state, second in states]
    payload = {"actorId": b64(ACTOR), "stateTransitions": found}
    return event("ACTOR_LIFECYCLE_EVENT", "actorLifecycleEvent", payload)


def actor_of(events: list[Json], state: str = "ended") -> ActorRecord:
    """The only actor."""
    (found,) = fold(events, state=state).entities.actors
    return found


def test_restarts_are_counted_and_the_last_place_counts() -> None:
    """One per RESTARTING: the number itself is not exported."""
    other = b"\x09" * 28
    events = [alive(1, WORKER, 5), steps(("RESTARTING", 2)), alive(3, other, 6), steps(("DEAD", 4))]
    actor = actor_of(events[::-1])
    assert (actor.num_restarts, actor.worker_id, actor.pid) == (1, other.hex(), 6)
    assert [state for state, _ in actor.transitions] == ["ALIVE", "RESTARTING", "ALIVE", "DEAD"]


def test_a_death_reported_twice_has_the_time_of_the_first() -> None:
    """As Ray's own answer."""
    actor = actor_of([alive(1, WORKER, 5), steps(("DEAD", 4), ("DEAD", 4.5))])
    assert actor.end_ns - actor.start_ns == 3_000_000_000


def test_a_death_reported_twice_has_the_cause_of_the_last() -> None:
    """Ray tells more when the lineage of an actor out of scope is gone, too."""
    deaths = steps(("DEAD", 4), ("DEAD", 4.5))
    for step, reason in zip(
        deaths["actorLifecycleEvent"]["stateTransitions"],
        ("OUT_OF_SCOPE", "REF_DELETED"),
        strict=True,
    ):
        step["deathCause"] = {"actorDiedErrorContext": {"reason": reason}}
    cause = json.loads(actor_of([alive(1, WORKER, 5), deaths]).death_cause_json)
    assert cause["actorDiedErrorContext"]["reason"] == "REF_DELETED"


def test_an_actor_that_lived_to_the_end_is_closed() -> None:
    """DEAD with a cause that says so; what Ray said last is kept."""
    actor = actor_of([alive(1, WORKER, 5), event("OTHER", "other", {})])
    message = json.loads(actor.death_cause_json)["actorDiedErrorContext"]["errorMessage"]
    assert (actor.state, actor.closed_state) == ("DEAD", "ALIVE")
    assert message.startswith("The Ray session ended at 2026-11-30 21:47:01 UTC while this actor")


def test_nothing_is_closed_in_a_running_session() -> None:
    """Actors stay alive."""
    actor = actor_of([alive(1, WORKER, 5)], state="running")
    assert (actor.state, actor.closed_state) == ("ALIVE", "")


def test_an_unknown_event_type_is_counted_by_name_and_reason() -> None:
    """And costs nothing else."""
    folded = fold([alive(1, WORKER, 5), event("OTHER_EVENT", "otherEvent", {})])
    assert folded.skipped() == {"unknown_type": 1}
    assert folded.mapped.events["OTHER_EVENT"] == 1


def test_jobs_take_definition_and_lifecycle() -> None:
    """The driver's process is a string in events; only CREATED and FINISHED are exported."""
    definition = {
        "jobId": b64(JOB), "driverPid": "670", "driverNodeId": b64(NODE), "entrypoint": "python x.py",
        "config": {"serializedRuntimeEnv": "{}", "metadata": {"job_submission_id": "sub"}},
    }  # fmt: skip
    lifecycle = {"jobId": b64(JOB), "stateTransitions": [{"state": "CREATED", "timestamp": at(1)}]}
    events = [
        event("DRIVER_JOB_DEFINITION_EVENT", "driverJobDefinitionEvent", definition),
        event("DRIVER_JOB_LIFECYCLE_EVENT", "driverJobLifecycleEvent", lifecycle),
    ]
    (open_job,) = fold(events).entities.jobs
    assert (open_job.state, open_job.closed_state, open_job.driver_pid) == (
        "FAILED",
        "CREATED",
        670,
    )
    lifecycle["stateTransitions"] += [{"state": "FINISHED", "timestamp": at(2)}]  # type: ignore[operator]
    (job,) = fold(events).entities.jobs
    assert (job.state, job.end_ns - job.start_ns) == ("FINISHED", 1_000_000_000)
    assert job.metadata == {"job_submission_id": "sub"}


def test_workers_have_events_of_their_own_since_ray_2_60() -> None:
    """Start, end and reason of each; without definition they still show."""
    workers = {w.worker_id: w for w in fold(ray_sample_events()).entities.workers}
    (defined,) = [worker for worker in workers.values() if worker.pid]
    assert (defined.state, defined.exit_type) == ("DEAD", "INTENDED_SYSTEM_EXIT")
    assert defined.exit_detail == "Worker exited because it was idle for a long time"
    assert defined.launch_ms < defined.launched_ms < defined.start_ms < defined.end_ms
    assert len(workers) == 2


def test_nodes_tell_the_head_and_their_death() -> None:
    """The head has a resource of its own; a death has a reason."""
    nodes = {node.is_head: node for node in fold(ray_sample_events()).entities.nodes}
    assert (nodes[True].closed_state, nodes[True].resources_total["CPU"]) == ("ALIVE", 4.0)
    assert (nodes[False].state, nodes[False].closed_state) == ("DEAD", "")
    assert (nodes[False].death_reason, nodes[False].death_message) == (
        "EXPECTED_TERMINATION",
        "received SIGTERM",
    )
