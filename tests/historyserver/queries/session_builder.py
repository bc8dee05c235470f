"""Makes small compiled sessions from records, without events: for tests of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from historyserver.compiled.details import DetailPacker, detail_number
from historyserver.compiled.meta import Meta
from historyserver.compiled.opener import CompiledSession, open_compiled
from historyserver.compiled.schema import SCHEMA_VERSION
from historyserver.compiled.writer import CompiledWriter
from historyserver.folding.records import (
    ActorRecord,
    JobRecord,
    NodeRecord,
    TaskDetail,
    WorkerRecord,
)

JOB = "02000000"
NODE_A = "aa" * 28
NODE_B = "bb" * 28
WORKER = "cc" * 28
DRIVER_PARENT = "ff" * 20 + JOB
START_MS = 1_796_000_000_000
END_MS = START_MS + 600_000


def task_id(number: int, job: str = JOB) -> str:
    """A task id of the form that Ray gives to normal tasks."""
    return f"{number:016x}" + "ff" * 12 + job


@dataclass
class Task:
    """One attempt, with the usual values."""

    id: str
    attempt: int = 0
    job: str | None = JOB
    state: str = "FINISHED"
    type: str | None = "NORMAL_TASK"
    name: str | None = "square"
    func: str | None = None
    language: str | None = "PYTHON"
    node: str | None = NODE_A
    worker: str | None = WORKER
    pid: int | None = 100
    actor: str | None = None
    parent: str | None = DRIVER_PARENT
    placement_group: str | None = None
    error_type: str | None = None
    required_resources: str | None = '{"CPU":1}'
    runtime_env: str | None = "{}"
    label_selector: str | None = None
    call_site: str | None = None
    creation_ms: int | None = START_MS
    start_ms: int | None = START_MS + 1
    end_ms: int | None = START_MS + 2
    detail: TaskDetail = field(default_factory=TaskDetail)


def build(
    path: Path,
    *,
    tasks: Sequence[Task] = (),
    actors: Sequence[ActorRecord] = (),
    jobs: Sequence[JobRecord] = (),
    nodes: Sequence[NodeRecord] = (),
    workers: Sequence[WorkerRecord] = (),
    cluster_events: Iterable[Mapping[str, Any]] = (),
    snapshots: Mapping[tuple[str, str], Any] | None = None,
    state: str = "ended",
) -> CompiledSession:
    """Write the records to a compiled session and open it."""
    writer = CompiledWriter(path)
    _add_tasks(writer, tasks)
    writer.add_actors(actors)
    writer.add_jobs(jobs)
    writer.add_nodes(nodes)
    writer.add_workers(workers)
    writer.add_cluster_events(_event_row(event) for event in cluster_events)
    writer.add_snapshots(
        (name, item, START_MS, zstandard.compress(msgspec.json.encode(body)))
        for (name, item), body in (snapshots or {}).items()
    )
    writer.index()
    writer.finish(_facts(state))
    session = open_compiled(path)
    _opened.append(session)
    return session


def _add_tasks(writer: CompiledWriter, tasks: Sequence[Task]) -> None:
    strings = _Strings()
    rows = [_row(task, number, strings) for number, task in enumerate(tasks)]
    pack = DetailPacker().pack
    counts: dict[tuple[int, int, int, int], int] = {}
    for row in rows:
        key = (row[3] or 0, row[7] or 0, row[5] or 0, row[4] or 0)
        counts[key] = counts.get(key, 0) + 1
    writer.add_strings((number, text) for text, number in strings.ids.items())
    writer.add_tasks(rows)
    writer.add_details(
        (number, pack([msgspec.msgpack.encode(task.detail)])) for number, task in enumerate(tasks)
    )
    writer.add_task_counts(counts)


def _facts(state: str) -> Meta:
    return Meta(
        schema_version=SCHEMA_VERSION,
        fingerprint="test",
        namespace="ml",
        cluster="c",
        session="session_2026-11-30_20-00-00_000000_1",
        state=state,
        start_ms=START_MS,
        end_ms=END_MS,
        ray_version="2.55.1",
    )


def close_all() -> None:
    """Close the files of every session built so far; one that is used again opens itself."""
    while _opened:
        _opened.pop().close()


_opened: list[CompiledSession] = []


class _Strings:
    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def id(self, text: str | None) -> int | None:
        if text is None:
            return None
        return self.ids.setdefault(text, len(self.ids) + 1)


def _row(task: Task, number: int, strings: _Strings) -> tuple[Any, ...]:
    s = strings.id
    return (
        0,
        bytes.fromhex(task.id),
        task.attempt,
        s(task.job),
        s(task.state),
        s(task.type),
        s(task.name),
        s(task.func if task.func is not None else task.name),
        s(task.language),
        s(task.node),
        s(task.worker),
        task.pid,
        s(task.actor),
        bytes.fromhex(task.parent) if task.parent else None,
        s(task.placement_group),
        s(task.error_type),
        s(task.required_resources),
        s(task.runtime_env),
        s(task.label_selector),
        s(task.call_site),
        task.creation_ms,
        task.start_ms,
        task.end_ms,
        detail_number(number, 0),
        task.detail.is_debugger_paused,
        None,
        None,
    )


def _event_row(event: Mapping[str, Any]) -> tuple[str, str, str, str, int, str]:
    return (
        event["event_id"],
        "",
        event["source_type"],
        event.get("severity", "INFO"),
        int(event["timestamp"]) * 1000,
        msgspec.json.encode(event).decode(),
    )
