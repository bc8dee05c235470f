"""What besides the driver's own events tells how a submitted job went.

Driver events say when a driver came and went, never how. Without a snapshot of `/api/jobs/`
there are two witnesses: the cluster events that Ray's job manager writes ("Completed a ray job
X with a status FAILED."), in whole seconds; and the supervisor actor of the job, which starts a
few milliseconds after the submission and dies right after its end (measured: 20 ms).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import ActorRecord

SUPERVISOR_PREFIX = "_ray_internal_job_actor_"
SUPERVISOR_NAMESPACE = "SUPERVISOR_ACTOR_RAY_NAMESPACE"

_COMPLETED = re.compile(
    r"Completed a ray job .{1,1000}? with a status (?P<status>[A-Z]+)\.\s?(?P<message>.*)\Z",
    re.DOTALL,
)


class _ClusterEvent(msgspec.Struct):
    message: str = ""
    custom_fields: dict[str, object] = {}


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """How a submission went, as far as witnesses tell. 0 and "" mean not told."""

    submission_id: str
    status: str = ""
    message: str = ""
    start_ms: int = 0
    end_ms: int = 0


def job_evidence(session: CompiledSession) -> dict[str, JobEvidence]:
    """What is known of each submission, by its id."""
    found: dict[str, JobEvidence] = {}
    for event, time_ms in _job_events(session):
        submission_id = event.custom_fields.get("submission_id")
        if isinstance(submission_id, str) and submission_id:
            before = found.get(submission_id, JobEvidence(submission_id))
            found[submission_id] = _with_event(before, event.message, time_ms)
    for actor in _supervisors(session):
        submission_id = actor.name.removeprefix(SUPERVISOR_PREFIX)
        before = found.get(submission_id, JobEvidence(submission_id))
        found[submission_id] = _with_supervisor(before, actor)
    return found


def _job_events(session: CompiledSession) -> Iterator[tuple[_ClusterEvent, int]]:
    decode = msgspec.json.Decoder(_ClusterEvent).decode
    rows = session.connection().execute(
        "SELECT body, timestamp_ms FROM cluster_events WHERE source_type = 'JOBS' ORDER BY row"
    )
    for body, time_ms in rows:
        try:
            yield decode(body), time_ms
        except msgspec.MsgspecError:
            continue  # the events page still shows the line as it is


def _supervisors(session: CompiledSession) -> Iterator[ActorRecord]:
    decode = msgspec.msgpack.Decoder(ActorRecord).decode
    rows = session.connection().execute(
        "SELECT body FROM actors WHERE ray_namespace = ? AND name LIKE ? || '%' ORDER BY row",
        (SUPERVISOR_NAMESPACE, SUPERVISOR_PREFIX),
    )
    for (body,) in rows:
        yield decode(body)


def _with_event(before: JobEvidence, message: str, time_ms: int) -> JobEvidence:
    completed = _COMPLETED.match(message)
    if completed is None:
        return replace(before, start_ms=before.start_ms or time_ms)
    return replace(before, status=completed["status"], message=completed["message"], end_ms=time_ms)


def _with_supervisor(before: JobEvidence, actor: ActorRecord) -> JobEvidence:
    """The supervisor's times are finer than the events' whole seconds."""
    first_ns = min((time_ns for _, time_ns in actor.transitions), default=actor.start_ns)
    died = actor.end_ns if not actor.closed_state else 0
    return replace(
        before,
        start_ms=first_ns // 1_000_000 or before.start_ms,
        end_ms=died // 1_000_000 or before.end_ms,
    )
