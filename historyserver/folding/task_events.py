"""Folds the events of task attempts: definition, lifecycle, profile."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections import Counter

import msgspec

from historyserver.folding import wire
from historyserver.folding.attempts import NO_SHAPE, UNKNOWN, Attempt, LogOffsets, merge_logs
from historyserver.folding.ids import (
    NODE_ID_BYTES,
    TASK_ID_BYTES,
    WORKER_ID_BYTES,
    HexIds,
    is_nil,
    parse_id,
)
from historyserver.folding.shapes import Shape, shape_of
from historyserver.folding.skips import SkipReason
from historyserver.folding.states import ORDER
from historyserver.folding.times import BadTimeError, parse_time_ns

MAX_ATTEMPT = 2**31 - 1

_TASK_ID_TEXT = 32
"""Length of a task id in base64."""

_PARENTS_KEPT = 100_000

_encode = msgspec.msgpack.Encoder().encode


class UnusableEventError(ValueError):
    """The event cannot be folded; carries why."""

    def __init__(self, reason: SkipReason) -> None:
        super().__init__(reason)
        self.reason = reason


class TaskFold:
    """Attempts by (task id, attempt number). One per process; parts merge later."""

    def __init__(self, skipped: Counter[str]) -> None:
        self.attempts: dict[bytes, Attempt] = {}
        self.shapes: list[Shape] = []
        self.latest_ns = 0
        """The last time that any transition tells of."""
        self.session_dirs: set[str] = set()
        self._skipped = skipped
        self._shape_numbers: dict[Shape, int] = {}
        self._shape_cache: dict[tuple[object, ...], int] = {}
        self._parents: dict[str, bytes] = {}
        self._node_ids = HexIds(NODE_ID_BYTES)
        self._worker_ids = HexIds(WORKER_ID_BYTES)

    def clear_attempts(self) -> None:
        """Forget the attempts, when they have been put aside; shapes keep their numbers."""
        self.attempts = {}

    def define(self, event: wire.Event) -> None:
        """Fold the definition of a task."""
        definition = event.task_definition_event
        if definition is None:
            raise UnusableEventError(SkipReason.NO_PAYLOAD)
        names = (definition.task_type, definition.task_name, bytes(definition.task_func))
        self._define(definition, self._shape(definition, names))

    def define_call(self, event: wire.Event) -> None:
        """Fold the definition of an actor's method call."""
        definition = event.actor_task_definition_event
        if definition is None:
            raise UnusableEventError(SkipReason.NO_PAYLOAD)
        names = ("", definition.actor_task_name, bytes(definition.actor_func))
        self._define(definition, self._shape(definition, names))

    def lifecycle(self, event: wire.Event) -> None:
        """Fold what the owner or the executor saw."""
        seen = event.task_lifecycle_event
        if seen is None:
            raise UnusableEventError(SkipReason.NO_PAYLOAD)
        node = self._node_ids(seen.node_id) if seen.node_id else ""
        worker = self._worker_ids(seen.worker_id) if seen.worker_id else ""
        transitions, time_ns = self._transitions(seen.state_transitions)
        attempt = self._attempt(seen.task_id, seen.task_attempt)
        if not time_ns:
            time_ns = _time_or_zero(event.timestamp)
        self.latest_ns = max(self.latest_ns, time_ns)
        attempt.transitions += transitions
        if node or worker:
            place = (time_ns, node, worker)
            if place > (attempt.placed_ns, attempt.node, attempt.worker):  # noqa: PLR1730 - hot
                attempt.placed_ns, attempt.node, attempt.worker = place
        pid = seen.worker_pid
        if pid and (time_ns, pid) > (attempt.pid_ns, attempt.pid):
            attempt.pid_ns, attempt.pid = time_ns, pid
        if seen.task_log_info is not None:
            self._log(attempt, seen.task_log_info)
        _add_rare(attempt, seen, time_ns)

    def _transitions(self, found: tuple[wire.Transition, ...]) -> tuple[list[int | str], int]:
        """Read transitions: state and time in turn, and the time of the last one."""
        transitions: list[int | str] = []
        time_ns = 0
        for transition in found:
            try:
                time_ns = parse_time_ns(transition.timestamp)
            except BadTimeError:
                self._skipped[SkipReason.BAD_TIME] += 1
                continue
            state = transition.state
            transitions += (ORDER.get(state, state), time_ns)
        return transitions, time_ns

    def profile(self, event: wire.Event) -> None:
        """Fold the spans that a process reports."""
        profile = event.task_profile_events
        if profile is None:
            raise UnusableEventError(SkipReason.NO_PAYLOAD)
        spans = profile.profile_events
        if spans is None or not spans.events:
            return
        ordered = [(s.end_time, s.start_time, s.event_name, s.extra_data) for s in spans.events]
        ordered.sort()
        # The arrays of `records.Profile` and `ProfileEvent`, without making the objects.
        packed = _encode(
            (
                spans.component_type,
                self._worker_ids(spans.component_id),
                spans.node_ip_address,
                [(name, start, end, extra) for end, start, name, extra in ordered],
            )
        )
        attempt = self._attempt(profile.task_id, profile.attempt_number)
        if not attempt.profiles or packed not in attempt.profiles[-8:]:
            attempt.profiles.append(packed)

    def _define(
        self, definition: wire.TaskDefinition | wire.ActorTaskDefinition, number: int
    ) -> None:
        parent = definition.parent_task_id
        raw_parent = b""
        if parent:
            known = self._parents.get(parent)
            if known is None:
                known = parse_id(parent, TASK_ID_BYTES)
                known = b"" if is_nil(known) else known
                if len(self._parents) >= _PARENTS_KEPT:
                    self._parents.clear()
                self._parents[parent] = known
            raw_parent = known
        attempt = self._attempt(definition.task_id, definition.task_attempt)
        if attempt.shape in (NO_SHAPE, number):
            attempt.shape = number
        elif _encode(self.shapes[number]) > _encode(self.shapes[attempt.shape]):
            attempt.shape = number  # two definitions of one attempt: any rule, but a fixed one
        attempt.parent = max(attempt.parent, raw_parent)

    def _attempt(self, task_id: str, number: int) -> Attempt:
        try:
            key = raw = a2b_base64(task_id)
        except (Base64Error, ValueError):
            key = raw = b""
        if len(raw) != TASK_ID_BYTES or len(task_id) != _TASK_ID_TEXT:
            key = raw = parse_id(task_id, TASK_ID_BYTES)
        if number:
            if not 0 < number <= MAX_ATTEMPT:
                raise UnusableEventError(SkipReason.BAD_ATTEMPT)
            key += number.to_bytes(4, "big")
        attempt = self.attempts.get(key)
        if attempt is None:
            attempt = self.attempts[key] = Attempt(raw, number)
        return attempt

    def _shape(
        self,
        definition: wire.TaskDefinition | wire.ActorTaskDefinition,
        names: tuple[str, str, bytes],
    ) -> int:
        key = (
            names,
            definition.language,
            definition.placement_group_id,
            bytes(definition.required_resources),
            definition.serialized_runtime_env,
            bytes(definition.label_selector),
            definition.call_site,
            bytes(definition.fallback_strategy),
        )
        number = self._shape_cache.get(key)
        if number is None:
            try:
                shape = shape_of(definition)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise UnusableEventError(SkipReason.WRONG_TYPE) from error
            number = self._shape_numbers.get(shape)
            if number is None:
                number = self._shape_numbers[shape] = len(self.shapes)
                self.shapes.append(shape)
            self._shape_cache[key] = number
        return number

    def _log(self, attempt: Attempt, info: wire.TaskLogInfo) -> None:
        """Take over log offsets; a start counts only beside its file's name.

        Ray 2.55 overwrites file and start with "" and 0 when an attempt ends within one flush.
        """
        log: LogOffsets = (
            info.stdout_file,
            info.stderr_file,
            info.stdout_start if info.stdout_file else UNKNOWN,
            info.stdout_end or UNKNOWN,
            info.stderr_start if info.stderr_file else UNKNOWN,
            info.stderr_end or UNKNOWN,
        )
        for path in (info.stdout_file, info.stderr_file):
            folder, logs, _ = path.rpartition("/logs/")
            if logs:
                self.session_dirs.add(folder)
        attempt.log = log if attempt.log is None else merge_logs(attempt.log, log)


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
