"""Jobs: how they went, from every source that can tell, and never more than is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.closing import Closing
from historyserver.folding.records import ActorRecord, JobRecord, NodeRecord
from historyserver.queries import jobs
from historyserver.queries.options import EQUAL, Filter, ListOptions
from storage import endpoints
from tests.historyserver.queries.ray_answers import live
from tests.historyserver.queries.session_builder import END_MS, JOB, NODE_A, START_MS, build

NS = 1_000_000
NODE = NodeRecord(node_id=NODE_A, ip_address="10.0.0.1")


def driver(*, submitted: bool = True, finished: bool = True, **changes: Any) -> JobRecord:
    """A driver job."""
    metadata = {"job_submission_id": "sub-1", "job_name": "sub-1", "team": "lab"}
    known: dict[str, Any] = {
        "job_id": JOB,
        "driver_pid": 728,
        "driver_node_id": NODE_A,
        "entrypoint": "python small.py",
        "serialized_runtime_env": '{"env_vars": {"A": "b"}}',
        "metadata": metadata if submitted else {"mine": "x"},
        "state": "FINISHED" if finished else "CREATED",
        "start_ns": START_MS * NS,
        "end_ns": (START_MS + 5000) * NS if finished else 0,
    }
    record = JobRecord(**(known | changes))
    if not finished:
        Closing(END_MS).close_job(record)
    return record


def completed(status: str, message: str = "") -> dict[str, Any]:
    """What Ray's job manager logs."""
    return {
        "event_id": status,
        "source_type": "JOBS",
        "message": f"Completed a ray job sub-1 with a status {status}.{message and ' ' + message}",
        "timestamp": str((START_MS + 6000) // 1000),
        "custom_fields": {"submission_id": "sub-1"},
    }


STARTED: dict[str, Any] = {
    "event_id": "started",
    "source_type": "JOBS",
    "message": "Started a ray job sub-1.",
    "timestamp": str(START_MS // 1000),
    "custom_fields": {"submission_id": "sub-1"},
}


def only(session: CompiledSession) -> dict[str, Any]:
    """The only job."""
    (found,) = jobs.all_jobs(session)
    return found


def test_finished_submission_has_every_field(tmp_path: Path) -> None:
    """KubeRay's server leaves status and runtime_env empty (fault 9)."""
    session = build(
        tmp_path / "s", jobs=[driver()], nodes=[NODE], cluster_events=[completed("SUCCEEDED")]
    )
    assert only(session) == {
        "type": "SUBMISSION",
        "job_id": JOB,
        "submission_id": "sub-1",
        "driver_info": {"id": JOB, "node_ip_address": "10.0.0.1", "pid": "728"},
        "status": "SUCCEEDED",
        "entrypoint": "python small.py",
        "message": "Job finished successfully.",
        "error_type": None,
        "start_time": START_MS,
        "end_time": START_MS + 6000,
        "metadata": {"team": "lab"},
        "runtime_env": {"env_vars": {"A": "b"}},
        "driver_agent_http_address": None,
        "driver_node_id": NODE_A,
        "driver_exit_code": 0,
    }
    assert set(only(session)) == set(live("jobs_list")[0])


@pytest.mark.parametrize(
    "status, message, shown",
    [
        ("FAILED", "Job entrypoint command failed with exit code 1", None),
        ("FAILED", "", "Job failed."),
        ("STOPPED", "", "Job was intentionally stopped."),
    ],
)
def test_cluster_events_tell_how_a_submission_ended(
    tmp_path: Path, status: str, message: str, shown: str | None
) -> None:
    """A driver event alone would say SUCCEEDED of all of them."""
    session = build(
        tmp_path / "s", jobs=[driver()], cluster_events=[STARTED, completed(status, message)]
    )
    job = only(session)
    assert (job["status"], job["message"]) == (status, shown or message)
    assert job["driver_exit_code"] is None


def test_driver_without_submission_succeeds_when_it_finishes(tmp_path: Path) -> None:
    """What Ray says of drivers; its metadata is its own."""
    job = only(build(tmp_path / "s", jobs=[driver(submitted=False)], nodes=[NODE]))
    assert (job["type"], job["status"], job["message"]) == ("DRIVER", "SUCCEEDED", None)
    assert (job["submission_id"], job["driver_node_id"]) == (None, None)
    assert job["metadata"] == {"mine": "x"}


def test_job_that_the_session_outlived_says_so(tmp_path: Path) -> None:
    """FAILED with a message, not RUNNING for ever and not a made-up success."""
    for submitted in (True, False):
        record = driver(submitted=submitted, finished=False)
        job = only(build(tmp_path / f"s{submitted}", jobs=[record], cluster_events=[]))
        assert job["status"] == "FAILED"
        assert "session ended" in job["message"]
        assert "RUNNING" in job["message"]
        assert job["end_time"] == END_MS


def test_evidence_stands_over_the_end_of_the_session(tmp_path: Path) -> None:
    """The driver's last event was lost, the job manager's line was not."""
    session = build(
        tmp_path / "s", jobs=[driver(finished=False)], cluster_events=[completed("SUCCEEDED")]
    )
    assert only(session)["status"] == "SUCCEEDED"


def test_job_of_a_running_session_runs(tmp_path: Path) -> None:
    """Nothing is closed while the session goes on."""
    record = driver()
    record.state, record.end_ns = "CREATED", 0
    job = only(build(tmp_path / "s", jobs=[record], state="running"))
    assert (job["status"], job["message"]) == ("RUNNING", "Job is currently running.")
    assert job["end_time"] is None


def test_final_snapshot_is_the_dashboards_own_word(tmp_path: Path) -> None:
    """Message, error type, exit code and times come from it unchanged."""
    kept = {**live("jobs_list")[0], "job_id": JOB, "submission_id": "sub-1", "status": "FAILED",
            "message": "exit 3", "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR",
            "driver_exit_code": 3, "start_time": 5, "end_time": 6}  # fmt: skip
    session = build(
        tmp_path / "s",
        jobs=[driver()],
        cluster_events=[completed("SUCCEEDED")],
        snapshots={(endpoints.JOBS, "sub-1"): kept},
    )
    assert only(session) == kept


def test_snapshot_older_than_the_end_gives_way(tmp_path: Path) -> None:
    """It saw the job running; the rest of what it knows stays."""
    kept = {**live("jobs_list")[0], "job_id": JOB, "submission_id": "sub-1"}
    session = build(
        tmp_path / "s",
        jobs=[driver()],
        cluster_events=[completed("FAILED", "boom")],
        snapshots={(endpoints.JOBS, "sub-1"): kept},
    )
    job = only(session)
    assert (job["status"], job["message"]) == ("FAILED", "boom")
    assert job["driver_agent_http_address"] == kept["driver_agent_http_address"]


def test_submission_without_driver_is_visible(tmp_path: Path) -> None:
    """KubeRay's server never shows it."""
    failed = completed("FAILED", "runtime_env could not be set up")
    job = only(build(tmp_path / "a", cluster_events=[STARTED, failed]))
    assert (job["submission_id"], job["job_id"], job["status"]) == ("sub-1", None, "FAILED")
    pending = {**live("jobs_list")[0], "job_id": None, "status": "PENDING", "driver_info": None}
    kept = {(endpoints.JOBS, "labjob2"): pending}
    job = only(build(tmp_path / "b", snapshots=kept))
    assert (job["submission_id"], job["status"]) == ("labjob2", "FAILED")
    assert "PENDING" in job["message"]


def test_supervisor_actor_gives_finer_times(tmp_path: Path) -> None:
    """Cluster events have whole seconds only."""
    actor = ActorRecord(
        actor_id="ab" * 16,
        name="_ray_internal_job_actor_sub-1",
        ray_namespace="SUPERVISOR_ACTOR_RAY_NAMESPACE",
        state="DEAD",
        transitions=[("DEPENDENCIES_UNREADY", (START_MS - 20) * NS)],
        end_ns=(START_MS + 5555) * NS,
    )
    session = build(
        tmp_path / "s", jobs=[driver()], actors=[actor], cluster_events=[completed("SUCCEEDED")]
    )
    assert only(session)["start_time"] == START_MS - 20
    assert only(session)["end_time"] == START_MS + 5555


def test_last_driver_of_a_submission_is_shown(tmp_path: Path) -> None:
    """As Ray shows it."""
    session = build(tmp_path / "s", jobs=[driver(), driver(job_id="05000000")])
    assert only(session)["job_id"] == "05000000"


def test_state_api_lists_the_same_jobs(tmp_path: Path) -> None:
    """Filtered without case."""
    session = build(tmp_path / "s", jobs=[driver()])
    chosen = ListOptions(detail=True, filters=(Filter("status", EQUAL, "succeeded"),))
    assert jobs.list_jobs(session, chosen)["data"]["result"]["result"] == [only(session)]


@pytest.mark.parametrize(
    "odd",
    [
        {"message": "hello"},
        {"message": 5},
        {"custom_fields": None},
        {"custom_fields": {"submission_id": 7}},
        {"message": "Completed a ray job sub-1 with a status WONDERFUL."},
    ],
)
def test_odd_cluster_events_tell_nothing(tmp_path: Path, odd: dict[str, Any]) -> None:
    """A line of another shape is not evidence, and no error."""
    session = build(tmp_path / "s", jobs=[driver()], cluster_events=[{**STARTED, **odd}])
    assert only(session)["status"] == "SUCCEEDED"
