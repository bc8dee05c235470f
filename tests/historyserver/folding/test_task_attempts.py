"""How partial events of one attempt become one row."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from historyserver.folding.records import TaskDetail
from tests.historyserver.folding.folded import Json, fold

JOB = bytes.fromhex("02000000")
ACTOR = bytes.fromhex("0102030405060708090a0b0c") + JOB
NODE = b"\x01" * 28
WORKER = b"\x02" * 28


def b64(raw: bytes) -> str:
    """As events carry ids."""
    return base64.b64encode(raw).decode()


NORMAL = b"\x11" * 8 + b"\xff" * 12 + JOB
CREATION = b"\xff" * 8 + ACTOR
CALL = b"\x22" * 8 + ACTOR


def at(second: float) -> str:
    """A time of the test's minute."""
    return f"2026-11-30T21:47:{second:012.9f}Z"


def event(kind: str, field: str, payload: Json) -> Json:
    """Wrap a payload."""
    return {"eventId": "x", "eventType": kind, "timestamp": at(59), field: payload}


def lifecycle(task: bytes, *states: tuple[str, float], attempt: int = 0, **more: Any) -> Json:
    """A lifecycle event with Ray's printed defaults."""
    payload: Json = {
        "taskId": b64(task), "taskAttempt": attempt, "jobId": b64(JOB), "nodeId": "",
        "workerId": "", "workerPid": 0,
        "stateTransitions": [{"state": state, "timestamp": at(second)} for state, second in states],
    }  # fmt: skip
    return event("TASK_LIFECYCLE_EVENT", "taskLifecycleEvent", {**payload, **more})


def definition(task: bytes, name: str = "square", *, attempt: int = 0, **more: Any) -> Json:
    """A definition event."""
    payload: Json = {
        "taskId": b64(task), "taskAttempt": attempt, "taskName": name, "taskType": "NORMAL_TASK",
        "language": "PYTHON", "jobId": b64(JOB), "parentTaskId": b64(b"\xff" * 24),
        "placementGroupId": b64(b"\xff" * 18), "serializedRuntimeEnv": "{}",
        "taskFunc": {"pythonFunctionDescriptor": {"functionName": "square", "className": ""}},
        "requiredResources": {"CPU": 1}, "labelSelector": {}, "refIds": {},
    }  # fmt: skip
    return event("TASK_DEFINITION_EVENT", "taskDefinitionEvent", {**payload, **more})


def alive(second: float, worker: bytes, pid: int) -> Json:
    """An actor that came to life."""
    step = {
        "state": "ALIVE", "timestamp": at(second), "nodeId": b64(NODE), "workerId": b64(worker),
        "pid": pid, "port": 1, "reprName": "",
    }  # fmt: skip
    payload = {"actorId": b64(ACTOR), "stateTransitions": [step]}
    return event("ACTOR_LIFECYCLE_EVENT", "actorLifecycleEvent", payload)


def rows(events: list[Json], state: str = "ended") -> list[Json]:
    """The rows by column name."""
    names = (
        "task_id", "attempt", "job", "state", "type", "name", "func", "language", "node", "worker",
        "pid", "actor", "parent", "placement_group", "error_type", "required_resources",
        "runtime_env", "label_selector", "call_site", "creation_ms", "start_ms", "end_ms", "detail",
    )  # fmt: skip
    found = []
    for values in fold(events, state=state).comparable()[0]:
        row = dict(zip(names, values, strict=True))
        row["detail"] = msgspec.msgpack.decode(row["detail"], type=TaskDetail)
        found.append(row)
    return found


def test_a_definition_alone_is_a_task_in_no_state() -> None:
    """An attempt that nothing else tells of still shows; nil ids are absent."""
    (row,) = rows([definition(NORMAL)], state="running")
    assert (row["state"], row["name"], row["parent"], row["placement_group"]) == (
        "NIL",
        "square",
        None,
        None,
    )
    assert json.loads(row["required_resources"]) == {"CPU": 1.0}


def test_defaults_never_overwrite() -> None:
    """Empty node, worker and pid of a later event leave what is known."""
    known = lifecycle(
        NORMAL, ("SUBMITTED_TO_WORKER", 1), nodeId=b64(NODE), workerId=b64(WORKER), workerPid=7
    )
    (row,) = rows([known, lifecycle(NORMAL, ("FINISHED", 5))])
    assert (row["node"], row["worker"], row["pid"]) == (NODE.hex(), WORKER.hex(), 7)


def test_the_state_is_the_one_furthest_along_not_the_latest() -> None:
    """An executor whose clock is ahead does not bring a finished task back to RUNNING."""
    events = [lifecycle(NORMAL, ("FINISHED", 3)), lifecycle(NORMAL, ("RUNNING", 4))]
    (row,) = rows(events)
    assert row["state"] == "FINISHED"


def test_a_finished_task_that_pinned_its_arguments_is_finished() -> None:
    """Ray declares GETTING_AND_PINNING_ARGS last, but it happens before RUNNING."""
    (row,) = rows([lifecycle(NORMAL, ("GETTING_AND_PINNING_ARGS", 1), ("FINISHED", 2))])
    assert row["state"] == "FINISHED"


def test_an_unknown_state_is_kept_as_it_came() -> None:
    """A state of a later Ray shows among the transitions."""
    events = [
        lifecycle(NORMAL, ("DREAMING", 2), ("RUNNING", 2)),
        lifecycle(NORMAL, ("FINISHED", 3)),
    ]
    (row,) = rows(events)
    assert [state for state, _ in row["detail"].transitions] == ["DREAMING", "RUNNING", "FINISHED"]
    assert row["state"] == "FINISHED"


def test_an_unknown_state_alone_is_the_state() -> None:
    """And counts as the state while nothing else is known."""
    (row,) = rows([lifecycle(NORMAL, ("DREAMING", 2))], state="running")
    assert row["state"] == "DREAMING"


def test_attempts_are_rows_of_their_own() -> None:
    """A retried task has a row per attempt, each with its own definition."""
    events = [
        definition(NORMAL),
        lifecycle(NORMAL, ("RUNNING", 1), ("FAILED", 2)),
        definition(NORMAL, attempt=1),
        lifecycle(NORMAL, ("RUNNING", 3), ("FINISHED", 4), attempt=1),
    ]
    assert [(row["attempt"], row["state"], row["name"]) for row in rows(events)] == [
        (0, "FAILED", "square"),
        (1, "FINISHED", "square"),
    ]


def test_a_restarted_actors_creation_task_uses_the_first_definition() -> None:
    """Ray defines only attempt 0 of it; each attempt ran where its actor lived then."""
    other = b"\x03" * 28
    events = [
        definition(CREATION, "A.__init__", taskType="ACTOR_CREATION_TASK"),
        lifecycle(CREATION, ("RUNNING", 1), workerPid=10),
        lifecycle(CREATION, ("RUNNING", 5), ("FINISHED", 6), workerPid=20, attempt=1),
        alive(2, WORKER, 10),
        alive(6, other, 20),
    ]
    first, second = rows(events)
    assert (first["name"], second["name"]) == ("A.__init__", "A.__init__")
    assert (first["worker"], second["worker"]) == (WORKER.hex(), other.hex())
    assert first["detail"].is_place_derived
    assert second["detail"].is_place_derived
    assert second["actor"] == ACTOR.hex()


def test_an_attempt_that_made_a_living_actor_finished_when_it_became_alive() -> None:
    """Ray reports no end for the attempts of restarts; they are no failures."""
    events = [
        definition(CREATION, "A.__init__", taskType="ACTOR_CREATION_TASK"),
        lifecycle(CREATION, ("RUNNING", 5), workerPid=20, attempt=1),
        alive(6, WORKER, 20),
    ]
    restarted = rows(events)[-1]
    assert (restarted["state"], restarted["error_type"]) == ("FINISHED", None)


def test_a_finished_job_fails_what_it_left_open() -> None:
    """Ray's GCS does so without an event (measured on 2.55): its words, its time."""
    states = [{"state": "FINISHED", "timestamp": at(9)}]
    payload = {"jobId": b64(JOB), "stateTransitions": states}
    ended = event("DRIVER_JOB_LIFECYCLE_EVENT", "driverJobLifecycleEvent", payload)
    for state in ("ended", "running"):
        (row,) = rows([lifecycle(NORMAL, ("RUNNING", 1)), ended], state=state)
        assert (row["state"], row["error_type"]) == ("FAILED", "WORKER_DIED")
        assert row["detail"].error_message == (
            f"Job finishes ({JOB.hex()}) as driver exits. Marking all non-terminal tasks as failed."
        )
        assert [name for name, _ in row["detail"].transitions] == ["RUNNING", "FAILED"]
        assert row["detail"].closed_state == ""


def test_an_actors_own_name_renames_its_calls() -> None:
    """As Ray's API: `__repr__` takes the place of the class, unless the call has a name."""
    payload = {
        "taskId": b64(CALL), "taskAttempt": 0, "actorTaskName": "A.go", "language": "PYTHON",
        "actorFunc": {"pythonFunctionDescriptor": {"className": "A", "functionName": "go"}},
    }  # fmt: skip
    events = [
        event("ACTOR_TASK_DEFINITION_EVENT", "actorTaskDefinitionEvent", payload),
        lifecycle(CALL, ("RUNNING", 1), actorReprName="Worker(7)"),
    ]
    (row,) = rows(events)
    assert (row["name"], row["func"], row["type"]) == ("Worker(7).go", "A.go", "ACTOR_TASK")


def test_a_task_without_a_definition_takes_its_name_from_its_profile() -> None:
    """Lost definitions do not lose the task: its id tells the type, its span the name."""
    spans = [{"eventName": "task::train", "startTime": "1", "endTime": "2", "extraData": "{}"}]
    payload = {
        "taskId": b64(NORMAL), "attemptNumber": 0,
        "profileEvents": {"componentType": "worker", "componentId": b64(WORKER), "events": spans},
    }  # fmt: skip
    events = [event("TASK_PROFILE_EVENT", "taskProfileEvents", payload)]
    (row,) = rows([*events, lifecycle(NORMAL, ("FINISHED", 2))])
    assert (row["name"], row["type"], row["job"]) == ("train", "NORMAL_TASK", JOB.hex())


@pytest.mark.parametrize(("span", "count"), [("submit_task", 0), ("task:execute", 1)])
def test_a_thread_that_only_calls_is_no_task(span: str, count: int) -> None:
    """Ray gives it a random task id and reports its calls; what ran is a task all the same."""
    spans = [{"eventName": span, "startTime": "1", "endTime": "2", "extraData": "{}"}]
    payload = {
        "taskId": b64(CALL), "attemptNumber": 0,
        "profileEvents": {"componentType": "driver", "componentId": "", "events": spans},
    }  # fmt: skip
    profile = event("TASK_PROFILE_EVENT", "taskProfileEvents", payload)
    assert len(rows([profile])) == count
    assert len(rows([profile, lifecycle(CALL, ("RUNNING", 1))])) == 1


def test_spans_of_several_events_are_united_once_each() -> None:
    """A driver reports its spans bit by bit, and some of them again."""

    def profile(*names: str) -> Json:
        spans = [
            {"eventName": name, "startTime": "5", "endTime": str(6 + len(name)), "extraData": "{}"}
            for name in names
        ]
        payload = {
            "taskId": b64(NORMAL), "attemptNumber": 0,
            "profileEvents": {"componentType": "driver", "componentId": "", "events": spans},
        }  # fmt: skip
        return event("TASK_PROFILE_EVENT", "taskProfileEvents", payload)

    (row,) = rows([profile("bb", "a"), profile("ccc", "a")])
    (united,) = row["detail"].profiles
    assert [span.name for span in united.events] == ["a", "bb", "ccc"]


@pytest.mark.parametrize("last", [True, False])
def test_the_latest_error_stays(last: bool) -> None:
    """Of two errors of an attempt the later event's counts, in either order."""
    early = lifecycle(NORMAL, ("FAILED", 1), rayErrorInfo={"errorType": "A", "errorMessage": "a"})
    late = lifecycle(NORMAL, ("FAILED", 2), rayErrorInfo={"errorType": "B", "errorMessage": "b"})
    (row,) = rows([early, late] if last else [late, early])
    assert (row["error_type"], row["detail"].error_message) == ("B", "b")


def test_an_error_whose_message_is_in_its_context_has_that_message() -> None:
    """Some errors leave the top message empty."""
    info = {
        "errorType": "RUNTIME_ENV_SETUP_FAILED",
        "runtimeEnvSetupFailedError": {"errorMessage": "no pip"},
    }
    (row,) = rows([lifecycle(NORMAL, ("FAILED", 1), rayErrorInfo=info)])
    assert row["detail"].error_message == "no pip"


def test_open_attempts_are_closed_when_the_session_is_over() -> None:
    """FAILED with a message that says what is not known; the transitions stay Ray's."""
    (row,) = rows([definition(NORMAL), lifecycle(NORMAL, ("RUNNING", 1))])
    detail = row["detail"]
    assert (row["state"], row["error_type"], detail.closed_state) == (
        "FAILED",
        "SESSION_ENDED",
        "RUNNING",
    )
    assert detail.error_message == (
        "The Ray session ended at 2026-11-30 21:47:01 UTC while this task was RUNNING; "
        "whether it finished is not known."
    )
    assert [state for state, _ in detail.transitions] == ["RUNNING"]
    assert row["end_ms"] == row["start_ms"]


def test_open_attempts_of_a_running_session_stay_open() -> None:
    """Nothing is closed while the session runs."""
    (row,) = rows([lifecycle(NORMAL, ("RUNNING", 1))], state="running")
    assert (row["state"], row["error_type"], row["end_ms"]) == ("RUNNING", None, None)


@pytest.mark.parametrize(
    "write",
    [
        lambda raw: base64.b64encode(raw).decode(),
        lambda raw: base64.urlsafe_b64encode(raw).decode(),
        lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("="),
        lambda raw: raw.hex(),
    ],
)
def test_ids_are_read_in_every_way_they_are_written(write: Any) -> None:
    """Base64 (standard or URL alphabet, padded or not) and hex mean the same id."""
    task = bytes(range(240, 248)) + b"\xff" * 12 + JOB
    seen = lifecycle(task, ("FINISHED", 1), nodeId=write(NODE), workerId=write(WORKER))
    seen["taskLifecycleEvent"]["taskId"] = write(task)
    (row,) = rows([definition(task), seen])
    assert (row["task_id"], row["node"], row["name"]) == (task, NODE.hex(), "square")
