"""Jobs: driver events, the dashboard's list of submissions, and other evidence, as one list.

A snapshot of `/api/jobs/` knows all of a submission, but may be older than its end. The rules:

- a final status in a snapshot stands; it was the dashboard's own word;
- else the evidence of `job_evidence` stands;
- else a driver that finished SUCCEEDED, as Ray itself says of drivers: no event has an exit code;
- else the job was running. If the session is over it is FAILED, with a message that says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import JobRecord
from historyserver.queries import runtime_envs, snapshots
from historyserver.queries.columns import JOBS
from historyserver.queries.job_evidence import JobEvidence, job_evidence
from historyserver.queries.matching import answer_list
from historyserver.queries.options import ListOptions
from historyserver.queries.session_end import ended_message, is_over
from storage import endpoints

SUBMISSION_KEY = "job_submission_id"
NAME_KEY = "job_name"
FINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})

_MESSAGES = {
    "PENDING": "Job has not started yet.",
    "RUNNING": "Job is currently running.",
    "STOPPED": "Job was intentionally stopped.",
    "SUCCEEDED": "Job finished successfully.",
    "FAILED": "Job failed.",
}
"""Ray's own words (`JobInfo`, 2.55)."""

_decode = msgspec.msgpack.Decoder(JobRecord).decode


@dataclass(frozen=True, slots=True)
class _Node:
    node_id: str
    ip_address: str


def all_jobs(session: CompiledSession) -> list[dict[str, Any]]:
    """`/api/jobs/`: one entry per driver without submission, one per submission."""
    evidence = job_evidence(session)
    known = dict(snapshots.items(session, endpoints.JOBS))
    ips = dict(session.connection().execute("SELECT node_id, ip_address FROM nodes"))
    entries: dict[str, dict[str, Any]] = {}
    for record in _records(session):
        node = _Node(record.driver_node_id, ips.get(record.driver_node_id) or "")
        submission_id = record.metadata.get(SUBMISSION_KEY, "")
        key = submission_id or record.job_id
        entries.pop(key, None)  # Ray shows the last driver of a submission
        entries[key] = _from_record(
            session, record, node, known.get(key) or {}, evidence.get(submission_id)
        )
    for key, row in known.items():
        if key not in entries:
            entries[key] = _from_snapshot(session, row, evidence.get(key))
    for key, told in evidence.items():
        if key not in entries:
            entries[key] = _from_evidence(session, told)
    return sorted(entries.values(), key=lambda job: job["start_time"] or 0)


def one_job(session: CompiledSession, job_or_submission_id: str) -> dict[str, Any] | None:
    """`/api/jobs/{id}`: by submission id or driver job id; None when there is none."""
    for job in all_jobs(session):
        if job_or_submission_id in (job["submission_id"], job["job_id"]):
            return job
    return None


def list_jobs(session: CompiledSession, options: ListOptions) -> dict[str, Any]:
    """`/api/v0/jobs`. Raises `QueryError`."""
    return answer_list(all_jobs(session), options, JOBS, sort_key=lambda row: row["job_id"] or "")


def _records(session: CompiledSession) -> list[JobRecord]:
    rows = session.connection().execute("SELECT body FROM jobs ORDER BY job_id")
    return [_decode(body) for (body,) in rows]


def _from_record(
    session: CompiledSession,
    record: JobRecord,
    node: _Node,
    known: dict[str, Any],
    told: JobEvidence | None,
) -> dict[str, Any]:
    submission_id = record.metadata.get(SUBMISSION_KEY) or None
    job = _empty("SUBMISSION" if submission_id else "DRIVER")
    job |= {
        "job_id": record.job_id,
        "submission_id": submission_id,
        "driver_info": {
            "id": record.job_id,
            "node_ip_address": node.ip_address,
            "pid": str(record.driver_pid),
        },
        "entrypoint": record.entrypoint,
        "start_time": record.start_ns // 1_000_000 or None,
        "end_time": record.end_ns // 1_000_000 or None,
        "metadata": _own_metadata(record.metadata),
        "runtime_env": runtime_envs.parsed(record.serialized_runtime_env),
    }
    if submission_id:
        job["driver_node_id"] = node.node_id or None
    job |= {name: value for name, value in known.items() if value is not None}
    return _with_outcome(session, job, told, finished=_is_finished(record))


def _from_snapshot(
    session: CompiledSession, row: dict[str, Any], told: JobEvidence | None
) -> dict[str, Any]:
    return _with_outcome(session, _empty("SUBMISSION") | row, told, finished=False)


def _from_evidence(session: CompiledSession, told: JobEvidence) -> dict[str, Any]:
    """A submission whose driver never came, seen in cluster events only."""
    job = _empty("SUBMISSION") | {"submission_id": told.submission_id, "status": "PENDING"}
    return _with_outcome(session, job, told, finished=False)


def _empty(kind: str) -> dict[str, Any]:
    return {
        "type": kind,
        "job_id": None,
        "submission_id": None,
        "driver_info": None,
        "status": "RUNNING",
        "entrypoint": "",
        "message": None,
        "error_type": None,
        "start_time": None,
        "end_time": None,
        "metadata": {},
        "runtime_env": {},
        "driver_agent_http_address": None,
        "driver_node_id": None,
        "driver_exit_code": None,
    }


def _with_outcome(
    session: CompiledSession, job: dict[str, Any], told: JobEvidence | None, *, finished: bool
) -> dict[str, Any]:
    """Set status, message, exit code and times by the rules of this module."""
    if job["status"] in FINAL:
        return job
    submitted = job["type"] == "SUBMISSION"
    if told is not None and submitted:
        job["start_time"] = told.start_ms or job["start_time"]
        job["end_time"] = told.end_ms or job["end_time"]
    if told is not None and told.status in FINAL:
        _settle(job, told.status, told.message)
    elif finished:
        _settle(job, "SUCCEEDED", "")
    elif is_over(session):
        message = ended_message(session, "job", job["status"])
        job |= {"status": "FAILED", "message": message, "end_time": session.meta.end_ms or None}
    else:
        job["end_time"] = None
        job["message"] = job["message"] or (_MESSAGES[job["status"]] if submitted else None)
    return job


def _settle(job: dict[str, Any], status: str, message: str) -> None:
    job["status"] = status
    if job["type"] != "SUBMISSION":
        return
    job["message"] = message or _MESSAGES[status]
    if status == "SUCCEEDED":
        job["driver_exit_code"] = 0


def _is_finished(record: JobRecord) -> bool:
    return record.end_ns > 0 and not record.closed_state


def _own_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """What the user gave: Ray adds the submission's id, and its name when the user gave none."""
    submission_id = metadata.get(SUBMISSION_KEY)
    if not submission_id:
        return metadata
    return {
        name: value
        for name, value in metadata.items()
        if name != SUBMISSION_KEY and not (name == NAME_KEY and value == submission_id)
    }
