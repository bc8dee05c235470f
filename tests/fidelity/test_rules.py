"""Each rule excuses what its reason explains, and a wrong value in the same field not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.fidelity.asking import Answer
from tests.fidelity.comparing import compare
from tests.fidelity.evidence import ACTORS, TASKS, Evidence
from tests.fidelity.rules import (
    COUNTED,
    EMPTY_LOG,
    ENDED,
    IDLE_WORKER,
    LATER,
    NEVER_RAN,
    RESTARTS,
    REWRITTEN,
    RULES,
    TASK_LOG,
    WENT_ON,
)
from tests.fidelity.summaries import summary

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
        "parent_task_id": "f" * 40 + "02000000", "worker_id": "1" * 56, "node_id": "2" * 56,
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


# -- logs -------------------------------------------------------------------------------------------

FILE = "/api/v0/logs/file?node_id=n&filename="
OF_TASK = f"/api/v0/logs/file?task_id={'a' * 48}&suffix=out&attempt_number=0"


def logs(path: str, live: Any, ours: Any, *, status: tuple[int, int]) -> set[str | None]:
    """The reasons for the difference of one log, beside a crashed task's row."""
    name = "/api/v0/logs/file of task" if "task_id" in path else "/api/v0/logs/file"
    pairs = [captured(tasks(task(name="crashes", func_or_class_name="crashes"))) for _ in range(2)]
    for answers, code, body in zip(pairs, status, (live, ours), strict=True):
        answers.append(Answer(name, path, code, "text/plain", body, TAKEN_MS))
    return {each.reason for one in compare(pairs[0], pairs[1], RULES) for each in one.differences}


def test_only_rays_own_logs_may_come_after_the_live_answer() -> None:
    """An empty log is one; text where Ray had none is explained of its own processes only."""
    status = (500, 200)
    assert logs(f"{FILE}worker-1.out", "500 Internal", "", status=status) == {EMPTY_LOG}
    assert logs(f"{FILE}gcs_server.err", "500 Internal", "later", status=status) == {LATER}
    assert None in logs(f"{FILE}worker-1.out", "500 Internal", "later", status=status)


def test_only_the_state_dump_is_rewritten() -> None:
    """Another text of any other file is wrong."""
    assert logs(f"{FILE}debug_state.txt", "a", "b", status=(200, 200)) == {REWRITTEN}
    assert logs(f"{FILE}worker-1.out", "a", "b", status=(200, 200)) == {None}


def test_refused_log_of_a_task_is_its_workers() -> None:
    """The text begins with the job and names the task; another text is not explained."""
    right = ":job_id:02000000\n:task_name:crashes\nout\n"
    assert logs(OF_TASK, "log_info = None", right, status=(500, 200)) == {TASK_LOG}
    for wrong in ("out\n", right.replace("02", "03"), right.replace("crashes", "other")):
        assert None in logs(OF_TASK, "log_info = None", wrong, status=(500, 200))


def test_log_that_never_was() -> None:
    """We may say so only if Ray knows no worker either."""
    ours = {"result": False, "msg": "the task never ran on a worker"}
    assert logs(OF_TASK, "due to missing node info.", ours, status=(500, 400)) == {NEVER_RAN}
    assert None in logs(OF_TASK, "500 Internal", ours, status=(500, 400))
    assert None in logs(OF_TASK, "text", ours, status=(200, 400))
