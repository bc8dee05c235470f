"""Each rule excuses what its reason explains, and a wrong value in the same field not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.fidelity.evidence import ACTORS, Evidence
from tests.fidelity.made_pairs import (
    ACTOR,
    CLOSED,
    FAILED_ONES,
    LINEAGE,
    OF_JOB,
    RESTARTED,
    SUMMARY,
    TAKEN_MS,
    TIMELINE,
    Body,
    captured,
    creation,
    listing,
    reasons,
    running,
    task,
    tasks,
)
from tests.fidelity.rules import (
    COUNTED,
    ENDED,
    IDLE_WORKER,
    RESTARTS,
    SAMPLED,
    UNDEFINED,
    WENT_ON,
    WORKER_EXIT,
)
from tests.fidelity.summaries import summary

# -- closed by the end ----------------------------------------------------------------------


def test_closed_task_is_explained() -> None:
    """A running task that the end closed, with its message."""
    assert reasons(tasks(running()), tasks(running() | CLOSED)) == {ENDED}


def test_task_failed_by_its_job_is_explained() -> None:
    """The driver's exit fails what is open, as Ray says it."""
    by_job = {
        "state": "FAILED",
        "error_type": "WORKER_DIED",
        "error_message": "Job finishes (02000000) as driver exits. Marking all ...",
    }
    assert reasons(tasks(running()), tasks(running() | by_job)) == {ENDED}


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "FINISHED"},
        {"state": "NIL"},
        {"error_type": "TASK_EXECUTION_EXCEPTION"},
        {"error_message": "something else"},
        {"error_message": CLOSED["error_message"].replace("RUNNING", "FINISHED")},
        {"name": "other"},
    ],
)
def test_other_outcome_of_an_open_task_is_not_explained(wrong: Body) -> None:
    """The end closes in one way only."""
    assert None in reasons(tasks(running()), tasks(running() | CLOSED | wrong))


def test_ended_task_may_not_change() -> None:
    """What was FINISHED live is not excused as closed."""
    assert None in reasons(tasks(task()), tasks(task() | CLOSED))


def by_state(live: list[Body], ours: list[Body]) -> dict[str, Any]:
    """A list of the failed ones beside the full lists."""
    return {FAILED_ONES: listing(live), **tasks(*ours)}


def test_closed_row_moves_to_the_list_of_its_new_state() -> None:
    """The list of the failed ones has one more, and counts it."""
    closed = running() | CLOSED
    assert reasons(by_state([], [running()]), by_state([closed], [closed])) == {
        ENDED, WENT_ON, COUNTED,
    }  # fmt: skip


def test_row_in_the_list_of_a_wrong_state_is_not_explained() -> None:
    """A row of another state, one that was there before, and one that nobody else has."""
    for row, full in ((running(), running()), (task(), task()), (running() | CLOSED, None)):
        ours = [full] if full else []
        assert None in reasons(by_state([], [running()]), by_state([row], ours))


def test_actor_and_node_may_only_die() -> None:
    """An open state becomes DEAD and nothing else."""
    alive = {**RESTARTED, "state": "ALIVE"}
    message = CLOSED["error_message"].replace("task", "actor").replace("RUNNING", "ALIVE")
    context = {"actor_died_error_context": {"error_message": message, "actor_id": ACTOR}}
    dead = {**RESTARTED, "death_cause": context}
    live, ours = {ACTORS: listing([alive | {"death_cause": None}])}, {ACTORS: listing([dead])}
    assert reasons(live, ours) == {ENDED}
    for key, value in (("state", "RESTARTING"), ("death_cause", "oops")):
        assert None in reasons(live, {ACTORS: listing([dead | {key: value}])})
    context["actor_died_error_context"]["actor_id"] = "d" * 32
    assert None in reasons(live, ours)


# -- went on ----------------------------------------------------------------------------------


def test_what_went_on_after_the_live_answer_is_explained() -> None:
    """A running task that finished later, and one that was not there yet."""
    later = [{"state": "RUNNING", "created_ms": TAKEN_MS + 1}]
    finished = task(events=[*task()["events"][:1], {"state": "FINISHED", "created_ms": TAKEN_MS}])
    ours = tasks(finished, task("b" * 48, events=later))
    assert reasons(tasks(running()), ours) == {WENT_ON, COUNTED}


def test_what_ended_or_began_before_is_not_explained() -> None:
    """Ray had told it, so that our answer is wrong or has a row too many."""
    assert None in reasons(tasks(running()), tasks(task()))
    assert None in reasons(tasks(), tasks(task()))


# -- an idle worker's exit ----------------------------------------------------------------------


def worker_died(failed_ms: int) -> Body:
    """What Ray's GCS says when FINISHED reached it too late."""
    events = [*task()["events"], {"state": "FAILED", "created_ms": failed_ms}]
    error = {"error_type": "WORKER_DIED", "error_message": "The worker died."}
    return task(state="FAILED", events=events, **error)


def test_finished_task_of_an_exited_worker_is_explained() -> None:
    """Ours has FINISHED before the time at which Ray failed it."""
    assert reasons(tasks(worker_died(TAKEN_MS)), tasks(task())) == {IDLE_WORKER}


@pytest.mark.parametrize(
    "ours",
    [
        task(error_type="WORKER_DIED"),
        task(state="RUNNING"),
        task(events=task()["events"][:1]),
        task(node_id=None),
    ],
)
def test_other_row_of_an_exited_worker_is_not_explained(ours: Body) -> None:
    """An error beside FINISHED, another state, no proof, another field."""
    assert None in reasons(tasks(worker_died(TAKEN_MS)), tasks(ours))


def test_task_that_failed_first_or_otherwise_is_not_explained() -> None:
    """FINISHED after FAILED, and a task's own error, are not an idle worker's exit."""
    assert None in reasons(tasks(worker_died(1)), tasks(task()))
    own = worker_died(TAKEN_MS) | {"error_type": "TASK_EXECUTION_EXCEPTION"}
    assert None in reasons(tasks(own), tasks(task()))


# -- what reached only one side -------------------------------------------------------------------


def undefined(**other: Any) -> Body:
    """A call of the actor that ran, and whose definition was lost."""
    kind = {"type": "ACTOR_TASK", "actor_id": ACTOR, "language": None, "parent_task_id": None}
    return task("b" * 16 + ACTOR, **(kind | other))


def test_task_without_definition_is_explained_where_its_actor_lived() -> None:
    """Ray leaves it out of its list."""
    assert reasons(tasks(task()), tasks(task(), undefined())) == {UNDEFINED, COUNTED}
    wrong: list[Body] = [{"language": "PYTHON"}, {"worker_pid": 8}, {"actor_id": 1}, {"events": []}]
    for each in wrong:
        assert None in reasons(tasks(task()), tasks(task(), undefined(**each)))


def test_task_that_failed_with_its_worker_is_explained() -> None:
    """Ours may fail it at the end of its job, and only then."""
    by_worker = f"Worker running the task ({'1' * 56}) died with exit_type: 3"
    failed: Body = {"state": "FAILED", "error_type": "WORKER_DIED", "end_time_ms": 5}
    live = tasks(task(**failed, error_message=by_worker))
    ours = task(**failed, error_message="Job finishes (02000000) as driver exits.")
    assert reasons(live, tasks(ours | {"end_time_ms": 9})) == {WORKER_EXIT}
    assert None in reasons(live, tasks(ours | {"end_time_ms": 4}))
    assert None in reasons(live, tasks(ours | {"error_message": "other"}))
    other = tasks(task(**failed, error_message="Worker running the task (2) died"))
    assert None in reasons(other, tasks(ours))


def test_only_pending_results_may_come_and_go() -> None:
    """A list of objects is older than the live answer, but what is stored stays the same."""
    path = "/api/v0/objects?detail=1&limit=10000"
    row = {"object_id": "a", "reference_type": "LOCAL_REFERENCE", "pid": 1}
    pending = row | {"object_size": -1, "task_status": "SUBMITTED_TO_WORKER"}
    stored = row | {"object_size": 9, "task_status": "FINISHED"}
    kept = stored | {"object_id": "b"}
    for one, reason in ((pending, SAMPLED), (stored, None)):
        assert reason in reasons({path: listing([kept, one])}, {path: listing([kept])})


# -- attempts that Ray forgot -------------------------------------------------------------------


def test_forgotten_attempt_is_explained() -> None:
    """Ray says that the actor was restarted once, so there was a second attempt."""
    ours = tasks(creation(0), creation(1))
    assert reasons(tasks(creation(0)), ours) == {RESTARTS, COUNTED}


@pytest.mark.parametrize(
    "extra",
    [
        creation(2),
        creation(1, name="other"),
        creation(1, job_id="03000000"),
        creation(1, worker_pid=8),
        creation(1, state="RUNNING"),
        creation(1, type="NORMAL_TASK"),
        creation(1, actor_id="d" * 32),
        task("b" * 48, attempt_number=1),
    ],
)
def test_other_additional_attempt_is_not_explained(extra: Body) -> None:
    """More attempts than restarts, another identity, place or state, an ordinary task."""
    assert None in reasons(tasks(creation(0)), tasks(creation(0), extra))


def event(row: Body) -> Body:
    """A complete event of the timeline."""
    arguments = {key: row[key] for key in ("task_id", "attempt_number")}
    return {"ph": "X", "cat": "task", "name": "task", "ts": 1.0, "dur": 1.0, "args": arguments}


def test_timeline_has_more_only_of_forgotten_attempts() -> None:
    """An event of the second attempt is explained, one of another task is not."""
    live = {**tasks(creation(0)), TIMELINE: []}
    ours = tasks(creation(0), creation(1))
    found = reasons(live, {**ours, TIMELINE: [event(creation(1))]})
    assert RESTARTS in found
    for wrong in (creation(0), task("b" * 48)):
        assert None in reasons(live, {**ours, TIMELINE: [event(wrong)]})


# -- counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["total", "num_after_truncation", "num_filtered"])
def test_list_counts_only_its_rows(number: str) -> None:
    """One more attempt is one more; two more, or more without rows, are not explained."""
    live = {**tasks(creation(0)), OF_JOB: listing([creation(0)])}
    both = [creation(0), creation(1)]
    ours = {**tasks(*both), OF_JOB: listing(both)}
    assert reasons(live, ours) == {RESTARTS, COUNTED}
    assert None in reasons(live, {**ours, OF_JOB: listing(both, **{number: 3})})
    assert None in reasons(live, {**tasks(creation(0)), OF_JOB: listing([creation(0)], total=2)})


@pytest.mark.parametrize("path", [SUMMARY, LINEAGE])
def test_summary_counts_as_ray_counts_our_rows(path: str) -> None:
    """Ray's own summary of our rows is explained; one more or less of anything is not."""

    def side(*rows: Body) -> dict[str, Any]:
        kept = tasks(*rows)
        answers = {answer.path: answer for answer in captured(kept)}
        return {**kept, path: summed(summary(path, Evidence(answers, answers)), len(rows))}

    live, ours = side(creation(0)), side(creation(0), creation(1))
    assert reasons(live, ours) == {RESTARTS, COUNTED}
    for name in ("total_actor_scheduled", "total_tasks"):
        wrong = copy.deepcopy(ours)
        wrong[path]["data"]["result"]["result"]["node_id_to_summary"]["cluster"][name] += 1
        assert None in reasons(live, wrong)


def summed(cluster: Body, count: int) -> Body:
    """A summary as an answer."""
    numbers = {"total": count, "num_after_truncation": count, "num_filtered": count}
    result = {"node_id_to_summary": {"cluster": cluster}}
    return {"data": {"result": {**numbers, "result": result}}}
