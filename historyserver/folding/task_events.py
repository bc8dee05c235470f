"""Folds the events of task attempts: definition, lifecycle, profile."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections import Counter

import msgspec

from historyserver.folding import wire
from historyserver.folding.attempts import NO_SHAPE, UNKNOWN, Attempt, LogOffsets, merge_logs
from historyserver.folding.definitions import Defined, Definitions
from historyserver.folding.ids import (
    NODE_ID_BYTES,
    TASK_ID_BYTES,
    WORKER_ID_BYTES,
    HexIds,
    parse_id,
)
from historyserver.folding.profiles import SPAN_ORDER
from historyserver.folding.shapes import Shape
from historyserver.folding.skips import SkipReason, UnusableEventError
from historyserver.folding.states import ORDER
from historyserver.folding.times import BadTimeError, parse_time_ns

MAX_ATTEMPT = 2**31 - 1

_TASK_ID_TEXT = 32
"""Length of a task id in base64."""

_astuple = msgspec.structs.astuple
_encode = msgspec.msgpack.Encoder().encode


class TaskFold:
    """Attempts by task id, as it is written, and attempt number. One per process.

    An id that is written in two ways gives two halves of an attempt, which merge later like
    those of two processes.
    """

    def __init__(self, skipped: Counter[str]) -> None:
        self.attempts: dict[str | tuple[str, int], Attempt] = {}
        self.latest_ns = 0
        """The last time that any transition tells of."""
        self.session_dirs: set[str] = set()
        self._skipped = skipped
        self._definitions = Definitions()
        self._node_ids = HexIds(NODE_ID_BYTES)
        self._worker_ids = HexIds(WORKER_ID_BYTES)

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of all definitions, by number."""
        return self._definitions.shapes

    def clear_attempts(self) -> None:
        """Forget the attempts, when they have been put aside; shapes keep their numbers."""
        self.attempts = {}

    def define(self, event: wire.Event) -> None:
        """Fold the definition of a task."""
        self._define(*self._definitions.task(event.task_definition_event))

    def define_call(self, event: wire.Event) -> None:
        """Fold the definition of an actor's method call."""
        self._define(*self._definitions.call(event.actor_task_definition_event))

    def lifecycle(self, event: wire.Event) -> None:
        """Fold what the owner or the executor saw."""
        seen = event.task_lifecycle_event
        if seen is None:
            raise UnusableEventError(SkipReason.NO_PAYLOAD)
        node, worker = self._node_ids[seen.node_id], self._worker_ids[seen.worker_id]
        attempt = self.attempts.get(seen.task_id) if not seen.task_attempt else None
        if attempt is None:
            attempt = self._attempt(seen.task_id, seen.task_attempt)
        time_ns = self._add_transitions(attempt, seen.state_transitions)
        if not time_ns:
            time_ns = _time_or_zero(event.timestamp)
        self.latest_ns = max(self.latest_ns, time_ns)
        if node or worker:
            place = (time_ns, node, worker)
            if place > (attempt.placed_ns, attempt.node, attempt.worker):  # noqa: PLR1730 - hot
                attempt.placed_ns, attempt.node, attempt.worker = place
        pid = seen.worker_pid
        if pid and (time_ns, pid) > (attempt.pid_ns, attempt.pid):
            attempt.pid_ns, attempt.pid = time_ns, pid
        if seen.task_log_info is not None:
            self._log(attempt, seen.task_log_info)
        if (
            seen.ray_error_info is not None
            or seen.is_debugger_paused is not None
            or seen.actor_repr_name
        ):
            _add_rare(attempt, seen, time_ns)

    def _add_transitions(self, attempt: Attempt, found: tuple[wire.Transition, ...]) -> int:
        """Add state and time of each in turn; gives the time of the last one, 0 without any."""
        time_ns = 0
        transitions = attempt.transitions
        for transition in found:
            try:
                time_ns = parse_time_ns(transition.timestamp)
            except BadTimeError:
                self._skipped[SkipReason.BAD_TIME] += 1
                continue
            state = transition.state
            if not state:
                self._skipped[SkipReason.NO_STATE] += 1
                continue
            transitions += (ORDER.get(state, state), time_ns)
        return time_ns

    def profile(self, event: wire.Event) -> None:
        """Fold the spans that a process reports."""
        profile = event.task_profile_events
        if profile is None:
            raise UnusableEventError(SkipReason.NO_PAYLOAD)
        spans = profile.profile_events
        if spans is None or not spans.events:
            return
        # The arrays of `records.Profile` and `ProfileEvent`, without making the objects.
        ordered = [_astuple(span) for span in spans.events]
        ordered.sort(key=SPAN_ORDER)
        packed = _encode(
            (
                spans.component_type,
                self._worker_ids[spans.component_id],
                spans.node_ip_address,
                ordered,
            )
        )
        attempt = self._attempt(profile.task_id, profile.attempt_number)
        if not attempt.profiles or packed not in attempt.profiles[-8:]:
            attempt.profiles.append(packed)

    def _define(self, task_id: str, defined: Defined) -> None:
        attempt, shape, parent = (
            self._attempt(task_id, defined.attempt),
            defined.shape,
            defined.parent,
        )
        if attempt.shape in (NO_SHAPE, shape):
            attempt.shape = shape
        elif _encode(self.shapes[shape]) > _encode(self.shapes[attempt.shape]):
            attempt.shape = shape  # two definitions of one attempt: any rule, but a fixed one
        attempt.parent = max(attempt.parent, parent)

    def _attempt(self, task_id: str, number: int) -> Attempt:
        key = (task_id, number) if number else task_id
        attempt = self.attempts.get(key)
        if attempt is None:
            if not 0 <= number <= MAX_ATTEMPT:
                raise UnusableEventError(SkipReason.BAD_ATTEMPT)
            attempt = self.attempts[key] = Attempt(_task_id(task_id), number)
        return attempt

    def _log(self, attempt: Attempt, info: wire.TaskLogInfo) -> None:
        """Take over log offsets; a start counts only beside its file's name.

        Ray 2.55 overwrites file and start with "" and 0 when an attempt ends within one flush.
        """
        stdout, stderr = info.stdout_file, info.stderr_file
        log: LogOffsets = (
            stdout,
            stderr,
            info.stdout_start if stdout else UNKNOWN,
            info.stdout_end or UNKNOWN,
            info.stderr_start if stderr else UNKNOWN,
            info.stderr_end or UNKNOWN,
        )
        if stdout or stderr:
            for path in (stdout, stderr):
                folder, logs, _ = path.rpartition("/logs/")
                if logs:
                    self.session_dirs.add(folder)
        attempt.log = log if attempt.log is None else merge_logs(attempt.log, log)


def _task_id(text: str) -> bytes:
    """Read a task's id, the usual form first. Raises `BadIdError`."""
    if len(text) == _TASK_ID_TEXT:
        try:
            raw = a2b_base64(text)
        except (Base64Error, ValueError):
            raw = b""
        if len(raw) == TASK_ID_BYTES:  # no other character was passed over
            return raw
    return parse_id(text, TASK_ID_BYTES)


def _add_rare(attempt: Attempt, seen: wire.TaskLifecycle, time_ns: int) -> None:
    """Take over what few events carry; the latest one counts."""
    info = seen.ray_error_info
    if info is not None and (info.error_type or info.error_message):
        error = (time_ns, info.error_type, info.error_message or _nested_message(info))
        attempt.error = error if attempt.error is None else max(error, attempt.error)
    if seen.is_debugger_paused is not None:
        paused = (time_ns, seen.is_debugger_paused)
        attempt.paused = paused if attempt.paused is None else max(paused, attempt.paused)
    if seen.actor_repr_name:
        attempt.repr_name = max(attempt.repr_name, seen.actor_repr_name)


def _nested_message(info: wire.RayErrorInfo) -> str:
    """Find the message of an error that carries it only in its context."""
    contexts = [info.runtime_env_setup_failed_error]
    if info.actor_died_error is not None:
        died = info.actor_died_error
        contexts += [
            died.actor_died_error_context,
            died.creation_task_failure_context,
            died.actor_unschedulable_context,
            died.oom_context,
            died.runtime_env_failed_context,
        ]
    texts = [c.error_message or c.formatted_exception_string for c in contexts if c is not None]
    return next(filter(None, texts), "")


def _time_or_zero(text: str) -> int:
    try:
        return parse_time_ns(text)
    except BadTimeError:
        return 0
