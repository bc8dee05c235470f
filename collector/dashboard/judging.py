"""Judges answers of the dashboard: is it one, is it better than the last, did it really change.

Pure functions over bodies. A dashboard whose cluster is dying still answers, with less and
less: such an answer must not take the place of a full one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from enum import Enum

import msgspec

from collector.dashboard.endpoints import Endpoint, Seen
from storage import endpoints

LOOKED_INTO_BYTES = 16 * 1024 * 1024
"""A larger answer is kept without looking into it: decoded, it would take ten times as much."""

_VOLATILE = frozenset(
    {
        "now",
        "cpu",
        "mem",
        "shm",
        "disk",
        "diskIo",
        "diskIoSpeed",
        "network",
        "networkSpeed",
        "loadAvg",
        "cpuPercent",
        "cpuTimes",
        "memoryInfo",
        "memoryFullInfo",
        "numFds",
        "timestamp",
        "uptime",
        "gpuUtilization",
        "utilizationGpu",
        "memoryUsed",
        "objectStoreUsedMemory",
        "objectStoreAvailableMemory",
        "object_store_used_memory",
        "object_store_available_memory",
        "storeStats",
        "processStats",
    }
)
_TIME_IN_TEXT = re.compile(r"[0-9]+(?:[.:-][0-9]+)+|[0-9]+s\b")
_REJECTIONS_TO_BELIEVE = 2
_PARTIAL_WARNING = ("data", "result", "partial_failure_warning")
_ENDED_JOB = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


class Rejection(Enum):
    """Why an answer is not kept."""

    STATUS = "status"
    NOT_JSON = "not_json"
    RESULT_FALSE = "result_false"
    TOO_LARGE = "too_large"
    UNREACHABLE = "unreachable"
    DENIED = "denied"
    EMPTIER = "emptier"
    """It lists nothing where the last one did."""
    LOST_STATS = "lost_stats"
    """A node that lives has lost its hardware figures: its agent is gone."""
    PARTIAL = "partial"
    """Ray says that a source did not answer, at the end."""
    DYING = "dying"
    """The head node was dead, or did not answer, just after."""
    OTHER_CLUSTER = "other_cluster"
    """The dashboard is one of another session already."""


class _Result(msgspec.Struct):
    result: bool = True


def usable(status: int, body: bytes, *, any_text: bool = False) -> Rejection | None:
    """Whether this is an answer at all; `any_text` takes one that is text and no JSON too."""
    if status in {401, 403}:
        return Rejection.DENIED
    if status != 200:
        return Rejection.STATUS
    try:
        if body.lstrip()[:1] == b"{" and not msgspec.json.decode(body, type=_Result).result:
            return Rejection.RESULT_FALSE
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None if any_text and _is_text(body) else Rejection.NOT_JSON
    return None


def _is_text(body: bytes) -> bool:
    try:
        return bool(body.decode())
    except UnicodeDecodeError:
        return False


def decoded(body: bytes) -> object:
    """The body as plain data; None when it is too large to look into, or no JSON."""
    if len(body) > LOOKED_INTO_BYTES:
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def worse(
    endpoint: Endpoint, old: object, new: object, *, final: bool, rejected_before: int
) -> Rejection | None:
    """Whether the new answer tells less because something ended, not because things changed.

    Args:
        endpoint: whose answers.
        old: the decoded answer that is kept.
        new: the decoded answer that came.
        final: the session is ending, so that every loss is suspect.
        rejected_before: so many answers just before were rejected by this function too. While
            Ray runs, what it says again and again is the truth (objects are freed, Serve
            applications deleted, nodes forgotten), but for what never vanishes.

    """
    if (
        endpoint.name.startswith(endpoints.DATASETS_PREFIX)
        and new
        and not _count(new, endpoint.items)
    ):
        return Rejection.EMPTIER  # of a job without datasets there is nothing to keep
    if old is None or new is None:
        return None
    suspect = final or rejected_before < _REJECTIONS_TO_BELIEVE
    if suspect and _lost_stats(endpoint, old, new):
        return Rejection.LOST_STATS
    emptier = _count(old, endpoint.items) and not _count(new, endpoint.items)
    if emptier and (endpoint.history or suspect):
        return Rejection.EMPTIER
    is_partial = _at(new, _PARTIAL_WARNING) and not _at(old, _PARTIAL_WARNING)
    return Rejection.PARTIAL if final and is_partial else None


def digest(value: object, body: bytes) -> str:
    """What stays the same while only clocks and load figures move."""
    stable = body if value is None else msgspec.json.encode(_stable(value))
    return hashlib.blake2b(stable, digest_size=16).hexdigest()


def _stable(value: object) -> object:
    if isinstance(value, dict):
        return {key: _stable(one) for key, one in value.items() if key not in _VOLATILE}
    if isinstance(value, list):
        return [_stable(one) for one in value]
    if isinstance(value, str) and len(value) > 200:
        return _TIME_IN_TEXT.sub("", value)  # the text of the autoscaler's status
    return value


def head_is_alive(node_list: object, node_id: str) -> bool:
    """Whether GCS's list of nodes has this node as alive. One that it does not know is not."""
    rows = _at(node_list, ("data", "result", "result"))
    if not isinstance(rows, list):
        return False
    return any(
        isinstance(row, dict) and row.get("node_id") == node_id and row.get("state") == "ALIVE"
        for row in rows
    )


def learn(seen: Seen, name: str, value: object) -> None:
    """Take note of what an answer tells about what else is worth asking."""
    if name == endpoints.ACTOR_TABLE:
        _learn_actors(seen, value)
    elif name == endpoints.NODES:
        rows = _at(value, ("data", "result", "result"))
        if isinstance(rows, list):
            ids = (row.get("node_id") for row in rows if isinstance(row, dict))
            seen.nodes = tuple(node_id for node_id in ids if isinstance(node_id, str))
    elif name == endpoints.JOBS and isinstance(value, list):
        _learn_jobs(seen, value)


def _learn_actors(seen: Seen, value: object) -> None:
    actors = _at(value, ("data", "actors"))
    rows = list(actors.values()) if isinstance(actors, dict) else []
    alive = [row for row in rows if isinstance(row, dict) and row.get("state") != "DEAD"]
    names = {str(row.get("name", "")) for row in alive}
    classes = {str(row.get(key, "")) for row in alive for key in ("actorClass", "className")}
    seen.serve = "SERVE_CONTROLLER_ACTOR" in names
    seen.train = "train_v2_state_actor" in names or "TrainStateActor" in classes
    seen.data = "datasets_stats_actor" in names or "_StatsActor" in classes


def _learn_jobs(seen: Seen, rows: list[object]) -> None:
    jobs: list[str] = []
    ended: set[str] = set()
    for row in rows:
        job_id = row.get("job_id") if isinstance(row, dict) else None
        if isinstance(row, dict) and isinstance(job_id, str) and job_id:
            jobs.append(job_id)
            if row.get("status") in _ENDED_JOB:
                ended.add(job_id)
    seen.ended_jobs = frozenset(ended)
    seen.dataset_jobs = tuple(jobs)


def _lost_stats(endpoint: Endpoint, old: object, new: object) -> bool:
    if endpoint.name == endpoints.NODE_SUMMARY:
        return _summary_lost_stats(old, new)
    return endpoint.name.startswith(endpoints.NODE_PREFIX) and _detail_lost_stats(old, new)


def _summary_lost_stats(old: object, new: object) -> bool:
    before, after = _summary(old), _summary(new)
    return any(
        "hostname" not in node and "hostname" in before.get(node_id, {})
        for node_id, node in after.items()
        if _at(node, ("raylet", "state")) == "ALIVE"
    ) or any(node_id not in after for node_id in before)


def _summary(answer: object) -> dict[str, Mapping[str, object]]:
    rows = _at(answer, ("data", "summary"))
    found: dict[str, Mapping[str, object]] = {}
    for row in rows if isinstance(rows, list) else []:
        node_id = _at(row, ("raylet", "nodeId"))
        if isinstance(row, dict) and isinstance(node_id, str):
            found[node_id] = row
    return found


def _detail_lost_stats(old: object, new: object) -> bool:
    before, after = _at(old, ("data", "detail")), _at(new, ("data", "detail"))
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    lost = "hostname" in before and "hostname" not in after
    return lost and _at(after, ("raylet", "state")) != "DEAD"


def _count(answer: object, items: tuple[str, ...]) -> int:
    found = _at(answer, items)
    return len(found) if isinstance(found, list | dict) else 0


def _at(value: object, path: tuple[str, ...]) -> object:
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value
