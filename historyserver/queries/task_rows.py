"""One row of `tasks` as Ray's API shows a task attempt.

The structs here are made to be encoded: ten thousand rows in detail are asked for every few
seconds by the job page, so what repeats (runtime environments, resources) is JSON text made
once per distinct value and copied into each row.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from historyserver.compiled.details import Details
from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import LogInfo, Profile
from historyserver.folding.states import RAY_NUMBERS
from historyserver.queries import runtime_envs

LISTED_COLUMNS = (
    "task_id, attempt, name, state, job, actor, type, func, parent, node, worker, pid, error_type"
)
DETAIL_COLUMNS = (
    f"{LISTED_COLUMNS}, language, required_resources, runtime_env, placement_group, creation_ms,"
    " start_ms, end_ms, call_site, label_selector, detail, stdout_start, stderr_start"
)

_ANSI = re.compile(r"\x1b[^m]*m")
_EMPTY_OBJECT = msgspec.Raw(b"{}")
_NO_FALLBACK = msgspec.Raw(b'{"options":[]}')

_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode
_encode = msgspec.json.Encoder().encode


class ListedTask(msgspec.Struct, gc=False):
    """A task attempt without detail, in Ray's names."""

    task_id: str
    attempt_number: int
    name: str | None
    state: str
    job_id: str | None
    actor_id: str | None
    type: str | None
    func_or_class_name: str | None
    parent_task_id: str | None
    node_id: str | None
    worker_id: str | None
    worker_pid: int | None
    error_type: str | None


class StateEvent(msgspec.Struct, gc=False):
    """When an attempt reached a state; whole milliseconds as a float, as Ray prints them."""

    state: str
    created_ms: float


class Span(msgspec.Struct, gc=False):
    """One profile event."""

    start_time: float
    end_time: float
    extra_data: msgspec.Raw
    event_name: str


class ProfilingData(msgspec.Struct, gc=False):
    """The profile events of an attempt."""

    component_type: str
    component_id: str
    node_ip_address: str
    events: list[Span]


class TaskLogInfo(msgspec.Struct, gc=False):
    """Where an attempt printed. An offset that nobody reported is left out, as in Ray."""

    stdout_file: str
    stderr_file: str
    stdout_start: int | msgspec.UnsetType
    stdout_end: int | msgspec.UnsetType
    stderr_start: int | msgspec.UnsetType
    stderr_end: int | msgspec.UnsetType


class DetailedTask(ListedTask, gc=False):
    """A task attempt in detail, in Ray's names."""

    language: str | None
    required_resources: msgspec.Raw
    runtime_env_info: msgspec.Raw
    placement_group_id: str | None
    creation_time_ms: float | None
    start_time_ms: float | None
    end_time_ms: float | None
    call_site: str | None
    label_selector: msgspec.Raw
    events: list[StateEvent]
    profiling_data: ProfilingData | dict[str, Any]
    task_log_info: TaskLogInfo | None
    error_message: str | None
    is_debugger_paused: bool | None
    fallback_strategy: msgspec.Raw


class TaskRows:
    """Makes API rows from database rows; keeps what repeats for the time of one answer."""

    def __init__(self, session: CompiledSession) -> None:
        self._details = Details(session)
        self._texts = _Texts(session)
        self._resources = _Rendered(session, _resources_json)
        self._runtime_envs = _Rendered(session, runtime_envs.info_json)
        self._selectors = _Rendered(session, _object_json)

    def listed(self, rows: Iterable[tuple[Any, ...]]) -> list[ListedTask]:
        """Rows of `LISTED_COLUMNS`."""
        text = self._texts
        return [
            ListedTask(
                task_id.hex(), attempt, text[name], text[state] or "NIL", text[job], text[actor],
                text[kind], text[func], parent.hex() if parent else None, text[node],
                text[worker], pid, text[error],
            )
            for (
                task_id, attempt, name, state, job, actor, kind, func, parent, node, worker, pid,
                error,
            ) in rows
        ]  # fmt: skip

    def detailed(self, rows: Iterable[tuple[Any, ...]]) -> list[DetailedTask]:
        """Rows of `DETAIL_COLUMNS`."""
        return [self._detailed(row) for row in rows]

    def _detailed(self, row: tuple[Any, ...]) -> DetailedTask:
        (
            task_id, attempt, name, state, job, actor, kind, func, parent, node, worker, pid,
            error, language, resources, runtime_env, placement_group, creation_ms, start_ms,
            end_ms, call_site, selector, number, stdout_start, stderr_start,
        ) = row  # fmt: skip
        text = self._texts
        detail = self._details.get(number, stdout_start, stderr_start)
        message = detail.error_message
        fallback = detail.fallback_strategy_json
        return DetailedTask(
            task_id.hex(), attempt, text[name], text[state] or "NIL", text[job], text[actor],
            text[kind], text[func], parent.hex() if parent else None, text[node], text[worker],
            pid, text[error], text[language], self._resources[resources],
            self._runtime_envs[runtime_env], text[placement_group],
            None if creation_ms is None else float(creation_ms),
            None if start_ms is None else float(start_ms),
            None if end_ms is None else float(end_ms),
            text[call_site], self._selectors[selector], state_events(detail.transitions),
            profiling_data(detail.profiles) or {},
            log_info(detail.log_info) if detail.log_info is not None else None,
            without_ansi(message) if message else ("" if error else None),
            detail.is_debugger_paused,
            valid_json(fallback) if fallback else _NO_FALLBACK,
        )  # fmt: skip


def state_events(transitions: list[tuple[str, int]]) -> list[StateEvent]:
    """Ray's list of states: one per state (the latest), in the order of Ray's enumeration."""
    latest = dict(transitions)
    return [
        StateEvent(state, float(latest[state] // 1_000_000)) for state in _in_order(tuple(latest))
    ]


@functools.lru_cache(maxsize=1024)
def _in_order(states: tuple[str, ...]) -> tuple[str, ...]:
    """A session has few sequences of states and many attempts."""
    return tuple(sorted(states, key=lambda state: RAY_NUMBERS.get(state, len(RAY_NUMBERS))))


def profiling_data(profiles: list[Profile]) -> ProfilingData | None:
    """All spans of an attempt under the process that reported last, as Ray merges them."""
    if not profiles:
        return None
    last = profiles[-1]
    return ProfilingData(
        last.component_type,
        last.component_id,
        last.node_ip,
        [
            Span(
                event.start_ns / 1e6,
                event.end_ns / 1e6,
                valid_json(event.extra_json)
                if event.extra_json not in ("", "{}")
                else _EMPTY_OBJECT,
                event.name,
            )
            for profile in profiles
            for event in profile.events
        ],
    )


def log_info(info: LogInfo) -> TaskLogInfo:
    """Where the attempt printed, without unknown offsets."""
    starts_and_ends = (info.stdout_start, info.stdout_end, info.stderr_start, info.stderr_end)
    return TaskLogInfo(
        info.stdout_file,
        info.stderr_file,
        *(msgspec.UNSET if offset < 0 else offset for offset in starts_and_ends),
    )


def without_ansi(text: str) -> str:
    """Remove terminal colours as Ray's API removes them from error messages."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def valid_json(text: str) -> msgspec.Raw:
    """JSON text from an event, to be copied into an answer; what is not JSON becomes a string."""
    try:
        return _decode_raw(text)
    except msgspec.DecodeError:
        return msgspec.Raw(_encode(text))


class _Texts(dict[int | None, str | None]):
    """Dictionary texts by id; NULL and the empty text are null in Ray's answers."""

    def __init__(self, session: CompiledSession) -> None:
        super().__init__({None: None})
        self._session = session

    def __missing__(self, key: int | None) -> str | None:
        value = self[key] = self._session.string(key) or None
        return value


class _Rendered(dict[int | None, msgspec.Raw]):
    """Dictionary texts turned into JSON, by id."""

    def __init__(self, session: CompiledSession, render: Any) -> None:
        super().__init__()
        self._session = session
        self._render = render

    def __missing__(self, key: int | None) -> msgspec.Raw:
        value = self[key] = msgspec.Raw(self._render(self._session.string(key)))
        return value


def _resources_json(text: str) -> bytes:
    """Resources as Ray prints them: numbers are floats."""
    try:
        return _encode(msgspec.json.decode(text or "{}", type=dict[str, float]))
    except msgspec.DecodeError:
        return b"{}"


def _object_json(text: str) -> bytes:
    try:
        return _encode(msgspec.json.decode(text or "{}", type=dict[str, Any]))
    except msgspec.DecodeError:
        return b"{}"
