"""From folded attempts to rows of the compiled session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from historyserver.folding.actors import Incarnation
from historyserver.folding.attempts import NO_SHAPE, UNKNOWN, Attempt, LogOffsets
from historyserver.folding.closing import (
    ERROR_TYPE,
    FINAL_TASK_STATES,
    JOB_ENDED_ERROR_TYPE,
    Closing,
    job_ended_message,
)
from historyserver.folding.profiles import has_run, merge_profiles, traced_name
from historyserver.folding.shapes import Shape, implied_type
from historyserver.folding.states import FAILED, FINISHED, STATES, name_of
from historyserver.folding.transitions import times_of

Row = list[Any]
"""sort key (ns), task id, attempt, then the other columns of `tasks`, but the detail itself in
place of its number, and in place of the log's starts a `PendingLog` (or None) and -1.
References to strings are their ids. What is absent is 0, the parent b"", `pid` and
`debugger_paused` -1. State, `name` and `func` may be text that the dictionary does not have yet."""

NO_ACTOR = b"\xff" * 12
"""The part of a task id that tells the actor, for a task of none."""

SHAPE_STRINGS = 9
"""So many fields of a shape, from its first, are columns; the rest is detail."""

COLUMN_TASK_ID = 1
COLUMN_JOB = 3
COLUMN_STATE = 4
COLUMN_TYPE = 5
COLUMN_NAME = 6
COLUMN_FUNC = 7
COLUMN_NODE = 9
COLUMN_WORKER = 10
COLUMN_PID = 11
COLUMN_PARENT = 13
COLUMN_CREATION = 20
COLUMN_DETAIL = 23
COLUMN_LOG = 25


@dataclass(frozen=True, slots=True)
class RowContext:
    """What rows need beside their attempt."""

    string_ids: Mapping[str, int]
    session_dir: str
    closing: Closing | None = None
    """None for a session that runs."""
    incarnations: Mapping[str, Sequence[Incarnation]] = field(default_factory=dict)
    job_ends_ns: Mapping[bytes, int] = field(default_factory=dict)
    """When the drivers of finished jobs exited. Ray fails what their jobs left open."""


_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class _Defined:
    """What rows take from a shape."""

    shape: Shape
    ids: tuple[int | str, ...]
    """Its first fields, as ids of strings."""
    name_bytes: int
    """See `PendingLog`."""


class RowMaker:
    """Makes the rows of attempts whose every part has been merged."""

    def __init__(self, context: RowContext, shapes: Sequence[Shape]) -> None:
        self._context = context
        ids = context.string_ids
        self._defined = [
            _Defined(
                shape,
                tuple(
                    ids[text] if text else 0
                    for text in msgspec.structs.astuple(shape)[:SHAPE_STRINGS]
                ),
                _name_bytes(shape),
            )
            for shape in shapes
        ]
        self._tails: dict[bytes, tuple[int, int, str]] = {}
        self._job_ends_ns = context.job_ends_ns
        self._log_bases: dict[tuple[str, int, bytes], str] = {}
        self._state_ids = [ids[name] for name in STATES]

    def rows(self, attempts: Mapping[bytes, Attempt]) -> Iterator[Row]:
        """Make the rows, in no order."""
        if any(attempt.shape == NO_SHAPE for attempt in attempts.values()):
            share_definitions(attempts.values())
        for attempt in attempts.values():
            if attempt.shape != NO_SHAPE or not _is_thread(attempt):
                yield self._row(attempt)

    def _row(self, attempt: Attempt) -> Row:
        ids = self._context.string_ids
        number = attempt.shape
        defined = self._unshaped(attempt) if number == NO_SHAPE else self._defined[number]
        shape = defined.shape
        type_id, name, func, language, group, resources, env, labels, call_site = defined.ids
        if attempt.repr_name and shape.type == "ACTOR_TASK" and shape.name == shape.func:
            name = self._id_or_text(f"{attempt.repr_name}.{shape.name.rpartition('.')[2]}")
        tail = attempt.task_id[8:]
        job_id, actor_id, actor = self._tails.get(tail) or self._tail(tail)
        is_place_derived = bool(
            actor and shape.type == "ACTOR_CREATION_TASK" and self._place(attempt, actor)
        )
        if self._job_ends_ns:
            self._fail_with_job(attempt)
        transitions, state, sort_ns, creation_ms, start_ms, end_ms = times_of(attempt.transitions)
        error_type = error_message = closed_state = ""
        if state != FINISHED:
            error_type, error_message, closed_state = self._outcome(attempt, name_of(state))
            if closed_state and self._context.closing is not None:
                end_ms = max(self._context.closing.end_ms, start_ms, creation_ms)
        log = None if attempt.log is None else self._log(attempt, attempt.log)
        paused = attempt.paused[1] if attempt.paused else None
        detail = (  # the fields of `records.TaskDetail`; a test keeps them alike
            transitions, merge_profiles(attempt.profiles), error_message, closed_state, paused,
            attempt.repr_name, shape.fallback_strategy, is_place_derived, log,
        )  # fmt: skip
        state_id = self._state_ids[FAILED] if closed_state else self._state_id(state)
        return [
            sort_ns, attempt.task_id, attempt.number, job_id, state_id, type_id, name, func,
            language, ids.get(attempt.node, 0), ids.get(attempt.worker, 0), attempt.pid or -1,
            actor_id, attempt.parent, group, ids.get(error_type, 0), resources, env, labels,
            call_site, creation_ms, start_ms, end_ms, _encode(detail),
            -1 if paused is None else int(paused),
            None if log is None else (*log[2:], defined.name_bytes), -1,
        ]  # fmt: skip

    def _tail(self, tail: bytes) -> tuple[int, int, str]:
        """Give what the last part of a task id tells: job, actor (ids of strings), actor (hex)."""
        ids = self._context.string_ids
        actor = "" if tail[:12] == NO_ACTOR else tail.hex()
        found = self._tails[tail] = (ids.get(tail[12:].hex(), 0), ids.get(actor, 0), actor)
        return found

    def _unshaped(self, attempt: Attempt) -> _Defined:
        task_type = implied_type(attempt.task_id)
        name = self._id_or_text(traced_name(attempt.profiles))
        return _Defined(
            Shape(task_type, "", "", "", "", "", "", "", "", ""),
            (self._context.string_ids[task_type], name, name, *(0,) * 6),
            UNKNOWN,
        )

    def _id_or_text(self, text: str) -> int | str:
        return self._context.string_ids.get(text, text) if text else 0

    def _state_id(self, state: int | str) -> int | str:
        return self._state_ids[state] if isinstance(state, int) else self._id_or_text(state)

    def _fail_with_job(self, attempt: Attempt) -> None:
        """Fail an open attempt of a job that is over, as Ray's GCS does without an event of it."""
        end_ns = self._job_ends_ns.get(attempt.task_id[20:])
        if end_ns is None or FINISHED in attempt.transitions or FAILED in attempt.transitions:
            return
        attempt.transitions += (FAILED, end_ns)
        if attempt.error is None:
            message = job_ended_message(attempt.task_id[20:].hex())
            attempt.error = (end_ns, JOB_ENDED_ERROR_TYPE, message)

    def _outcome(self, attempt: Attempt, state: str) -> tuple[str, str, str]:
        """Give error type, error message and, if the session's end closed it, the last state."""
        closing = self._context.closing
        closed_state = state if closing is not None and state not in FINAL_TASK_STATES else ""
        if attempt.error is not None and (state == "FAILED" or closed_state):
            return attempt.error[1], attempt.error[2], closed_state
        if closing is not None and closed_state:
            return ERROR_TYPE, closing.message("task", state), closed_state
        return "", "", ""

    def _place(self, attempt: Attempt, actor: str) -> bool:
        """Find where a creation task ran, which its events never say: where its actor lived.

        The process id decides; without one, the first ALIVE after the attempt started. An actor
        that lived there was created there, which ends attempts that Ray never reported as
        finished (those of restarts).
        """
        if attempt.worker:
            return False
        lives = self._context.incarnations.get(actor, ())
        started_ns = attempt.pid_ns
        matches = [life for life in lives if life.pid == attempt.pid and attempt.pid]
        matches = matches or [life for life in lives if started_ns and life.alive_ns >= started_ns]
        if not matches:
            return False
        life = matches[0]
        attempt.node, attempt.worker = life.node, life.worker
        open_ = FINISHED not in attempt.transitions and FAILED not in attempt.transitions
        if open_ and attempt.error is None and attempt.pid == life.pid:
            attempt.transitions += (FINISHED, life.alive_ns)
        return True

    def _log(self, attempt: Attempt, log: LogOffsets) -> LogOffsets:
        """Complete what events said: the file follows from the worker if Ray lost it."""
        stdout, stderr, stdout_start, stdout_end, stderr_start, stderr_end = log
        if attempt.worker and attempt.pid and not (stdout and stderr):
            key = (attempt.worker, attempt.pid, attempt.task_id[20:])
            base = self._log_bases.get(key)
            if base is None:
                name = f"worker-{attempt.worker}-{attempt.task_id[20:].hex()}-{attempt.pid}"
                base = self._log_bases[key] = f"{self._context.session_dir}/logs/{name}"
            stdout, stderr = stdout or f"{base}.out", stderr or f"{base}.err"
        return (stdout, stderr, stdout_start, stdout_end, stderr_start, stderr_end)


def _is_thread(attempt: Attempt) -> bool:
    """Whether this is a thread that called Ray, and no task.

    Ray gives threads that run no task (those of Serve, Data and Train) a random task id, which
    looks like an actor task's, and reports their calls as its spans. Its own list skips them, too.
    """
    is_told = attempt.transitions or attempt.pid or attempt.log or attempt.error
    if is_told or implied_type(attempt.task_id) != "ACTOR_TASK":
        return False
    return bool(attempt.profiles) and not has_run(attempt.profiles)


def _name_bytes(shape: Shape) -> int:
    """Give the length of the name that a worker writes before the task's own output."""
    is_python = shape.language == "PYTHON" and shape.type == "NORMAL_TASK"
    return len(shape.name.replace("()", "").encode()) if is_python else UNKNOWN


def share_definitions(attempts: Iterable[Attempt]) -> None:
    """Give attempts without a definition that of another attempt of their task.

    Ray defines each attempt, but not the later ones of a restarted actor's creation task.
    """
    waiting: list[Attempt] = []
    known: dict[bytes, Attempt] = {}
    for attempt in attempts:
        if attempt.shape == NO_SHAPE:
            waiting.append(attempt)
            continue
        best = known.get(attempt.task_id)
        if best is None or attempt.number < best.number:
            known[attempt.task_id] = attempt
    for attempt in waiting:
        source = known.get(attempt.task_id)
        if source is not None:
            attempt.shape, attempt.parent = source.shape, source.parent
