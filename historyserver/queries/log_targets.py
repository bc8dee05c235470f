"""Where a task, an actor, a process or a submitted job printed: node, file and byte range."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import msgspec

from historyserver.compiled.details import Details
from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import ActorRecord, LogInfo
from historyserver.queries.log_files import (
    LogFileRow,
    checked_path,
    find_by_pid,
    find_file,
    find_on_any_node,
)

_actor = msgspec.msgpack.Decoder(ActorRecord)
_HEX = re.compile(r"[0-9a-f]+\Z")
_SUBMISSION = re.compile(r"[A-Za-z0-9._-]{1,200}\Z")
_MAX_ATTEMPT = 2**31 - 1


class RangeKind(Enum):
    """How exactly the bytes are those that were asked for. Sent as a header."""

    EXACT = "exact"
    START_UNKNOWN = "start-unknown"
    """Ray 2.55 loses the start of short tasks: from the file's beginning to the task's end."""
    END_UNKNOWN = "end-unknown"
    """The attempt never told its end (killed): to the file's end."""
    WHOLE_WORKER_FILE = "whole-worker-file"
    """Nothing tells where in the file: tasks of concurrent actors, or no log info."""
    WHOLE_FILE = "whole-file"
    """A file was asked for."""


class TargetNotFoundError(LookupError):
    """The session holds no such log; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class LogTarget:
    """The bytes to read."""

    file: LogFileRow
    start: int
    end: int
    kind: RangeKind


def whole(file: LogFileRow) -> LogTarget:
    """All of a file."""
    return LogTarget(file, 0, file.size_bytes, RangeKind.WHOLE_FILE)


def of_task(session: CompiledSession, *, task_id: str, attempt: int, suffix: str) -> LogTarget:
    """What one attempt printed. Raises `TargetNotFoundError`."""
    if len(task_id) != 48 or not _HEX.match(task_id) or not 0 <= attempt <= _MAX_ATTEMPT:
        raise TargetNotFoundError(f"no task has the id {task_id!r} with attempt {attempt}")
    row = (
        session.connection()
        .execute(
            "SELECT node, worker, detail, stdout_start, stderr_start FROM tasks"
            " WHERE task_id = ? AND attempt = ?",
            (bytes.fromhex(task_id), attempt),
        )
        .fetchone()
    )
    if row is None:
        raise TargetNotFoundError(f"the session has no task {task_id} with attempt {attempt}")
    node_id = session.string(row[0]) if row[0] is not None else ""
    worker_id = session.string(row[1]) if row[1] is not None else ""
    info = Details(session).get(*row[2:]).log_info
    if info is not None:
        target = _by_log_info(session, node_id=node_id, info=info, suffix=suffix)
        if target is not None:
            return target
    if not worker_id:
        raise TargetNotFoundError(
            f"task {task_id} attempt {attempt} never ran on a worker, so it printed nothing"
        )
    file = _worker_file(session, worker_id=worker_id, node_id=node_id, suffix=suffix)
    return LogTarget(file, 0, file.size_bytes, RangeKind.WHOLE_WORKER_FILE)


def of_actor(session: CompiledSession, *, actor_id: str, suffix: str) -> LogTarget:
    """What the actor's last worker printed. Raises `TargetNotFoundError`."""
    row = (
        session.connection()
        .execute("SELECT body FROM actors WHERE actor_id = ?", (actor_id,))
        .fetchone()
    )
    if row is None:
        raise TargetNotFoundError(f"the session has no actor {actor_id!r}")
    actor = _actor.decode(row[0])
    if not actor.worker_id:
        raise TargetNotFoundError(
            f"actor {actor_id} was never placed on a worker, so it printed nothing"
        )
    return whole(
        _worker_file(session, worker_id=actor.worker_id, node_id=actor.node_id, suffix=suffix)
    )


def of_process(session: CompiledSession, *, node_id: str, pid: int, suffix: str) -> LogTarget:
    """What the worker process with this id printed. Raises `TargetNotFoundError`."""
    file = find_by_pid(session, node_id=node_id, pid=pid, suffix=suffix)
    if file is None:
        raise TargetNotFoundError(
            f"node {node_id} has no .{suffix} file of a worker with pid {pid}"
        )
    return whole(file)


def of_submission(
    session: CompiledSession, *, submission_id: str, node_id: str | None = None
) -> LogTarget:
    """What the driver of a submitted job printed. Raises `TargetNotFoundError`."""
    if _SUBMISSION.match(submission_id):
        path = f"job-driver-{submission_id}.log"
        file = find_on_any_node(session, prefix=path, suffix=path, node_id=node_id)
        if file is not None:
            return whole(file)
    raise TargetNotFoundError(
        f"no driver log of the job {submission_id!r}: only submitted jobs have one"
    )


def of_file(session: CompiledSession, *, node_id: str, name: str) -> LogTarget:
    """A file by its name. Raises `TargetNotFoundError` and `LogNameError`."""
    path = checked_path(name)
    file = find_file(session, node_id, path)
    if file is None:
        raise TargetNotFoundError(f"node {node_id} has no log file {path!r}")
    return whole(file)


def _by_log_info(
    session: CompiledSession, *, node_id: str, info: LogInfo, suffix: str
) -> LogTarget | None:
    name, start, end = (
        (info.stdout_file, info.stdout_start, info.stdout_end)
        if suffix == "out"
        else (info.stderr_file, info.stderr_start, info.stderr_end)
    )
    if not name:
        return None
    path = name.rsplit("/logs/", 1)[-1].lstrip("/")
    file = find_file(session, node_id, path) or find_on_any_node(
        session, prefix=path, suffix=path, node_id=node_id
    )
    if file is None:
        return None
    kind = RangeKind.EXACT
    if start < 0:
        start, kind = 0, RangeKind.START_UNKNOWN
    if end < start:
        end = file.size_bytes
        unknown_both = kind is RangeKind.START_UNKNOWN
        kind = RangeKind.WHOLE_WORKER_FILE if unknown_both else RangeKind.END_UNKNOWN
    return LogTarget(file, start, min(end, max(file.size_bytes, start)), kind)


def _worker_file(
    session: CompiledSession, *, worker_id: str, node_id: str, suffix: str
) -> LogFileRow:
    if _HEX.match(worker_id):
        file = find_on_any_node(
            session, prefix=f"worker-{worker_id}-", suffix=f".{suffix}", node_id=node_id or None
        )
        if file is not None:
            return file
    raise TargetNotFoundError(f"no .{suffix} file of worker {worker_id} was stored")
