"""Compiles a session: from what `locate` found to one finished file."""

from __future__ import annotations

import contextlib
import gc
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from historyserver.compiled.meta import Meta
from historyserver.compiled.schema import SCHEMA_VERSION
from historyserver.compiled.writer import CompiledWriter
from historyserver.compiling.cluster_events import cluster_event_rows
from historyserver.compiling.entities import Entities, gather_entities
from historyserver.compiling.map_reduce import MapResult, ReducePlan
from historyserver.compiling.plan import make_plan
from historyserver.compiling.snapshots import Versions, snapshot_rows
from historyserver.compiling.task_table import TaskTable
from historyserver.compiling.units import BYTES_PER_ATTEMPT, SMALL_BYTES, cut, plain_bytes
from historyserver.compiling.workers import WorkerPool, start_pool
from historyserver.folding.skips import SkipReason
from historyserver.reading.damage import DamageLog
from historyserver.reading.source import SessionSource
from storage.backend import Backend

ATTEMPTS_PER_PARTITION = 50_000
"""Decides how many partitions there are, and so how much a reducer holds."""


def compile_session(
    backend: Backend,
    source: SessionSource,
    path: Path,
    *,
    workers: int = 2,
    forked: Sequence[Connection[Any, Any]] = (),
) -> Meta:
    """Compile a session into `path`, which appears only when it is whole.

    Args:
        backend: where the session is; pickled for the worker processes of a large session.
        source: what to read.
        path: where the compiled file goes; intermediate files go beside it.
        workers: how many processes may be used.
        forked: processes that are there already (see `commands`).

    Raises:
        StorageError: storage failed.
        SourceChangedError: something was moved since `source` was located; locate again.
        WorkerDiedError: a process died.

    """
    started_s = time.monotonic()
    workers, partitions = _processes(source, workers)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as name, no_gc():
        folder = Path(name)
        pooled = start_pool(backend, folder, workers=workers, partitions=partitions, forked=forked)
        with pooled as pool, contextlib.closing(CompiledWriter(folder / "compiled")) as writer:
            facts = _Compile(backend, source, pool, writer).run(folder, partitions)
            meta = _timed(facts, started_s)
            writer.finish(meta)
        writer.path.replace(path)
    return meta


def _timed(meta: Meta, started_s: float) -> Meta:
    return msgspec.structs.replace(
        meta,
        compiled_ms=time.time_ns() // 1_000_000,
        compile_duration_ms=int((time.monotonic() - started_s) * 1000),
    )


def _processes(source: SessionSource, workers: int) -> tuple[int, int]:
    """How many processes pay, and into how many partitions attempts are divided."""
    size_bytes = plain_bytes(source.event_files)
    if size_bytes < SMALL_BYTES:
        workers = 1
    return workers, max(workers, -(-size_bytes // (BYTES_PER_ATTEMPT * ATTEMPTS_PER_PARTITION)))


class _Compile:
    """The steps of one compile, and what is left out on the way."""

    def __init__(
        self, backend: Backend, source: SessionSource, pool: WorkerPool, writer: CompiledWriter
    ) -> None:
        self._backend = backend
        self._source = source
        self._pool = pool
        self._writer = writer
        self._damage = DamageLog(source.damage)
        self._skipped = Counter[str]()
        self._versions = Versions()

    def run(self, folder: Path, partitions: int) -> Meta:
        """Write everything but the facts, which it returns."""
        source, pool = self._source, self._pool
        mapped = pool.map(cut(self._backend, source.event_files))
        entities = gather_entities(mapped, source, self._write_cluster_events())
        plan = make_plan(mapped, entities, source.session.session)
        pool.reduce(plan, partitions)
        pool.begin_lineage(plan, entities.actor_names())
        table = TaskTable(folder, partitions, plan.context.string_ids)
        self._write_tasks(table, plan)
        self._write_entities(entities, table)
        self._write_sources()
        for name, body in pool.lineage().items():
            self._writer.add_rendered(name, body)
        self._writer.index()
        return self._facts(entities, mapped, plan)

    def _write_cluster_events(self) -> int:
        """Give the time of the latest."""
        files = self._source.log_files
        rows = cluster_event_rows(self._backend, files, self._damage, self._skipped)
        self._writer.add_cluster_events(rows)
        return rows[-1].timestamp_ms if rows else 0

    def _write_tasks(self, table: TaskTable, plan: ReducePlan) -> None:
        writer = self._writer
        writer.add_strings((number, text) for text, number in plan.context.string_ids.items())
        writer.add_tasks(table.rows())
        writer.add_details(table.details())
        writer.add_strings((number, text) for text, number in table.late_strings.items())
        writer.add_task_counts(table.counts)

    def _write_entities(self, entities: Entities, table: TaskTable) -> None:
        writer = self._writer
        writer.add_actors(entities.actors)
        writer.add_jobs(entities.jobs)
        writer.add_nodes(entities.nodes)
        writer.add_workers(entities.with_workers(table.workers()))

    def _write_sources(self) -> None:
        """Snapshots as they are, and where the bytes of logs lie."""
        source = self._source
        self._writer.add_snapshots(
            snapshot_rows(self._backend, source.snapshots, self._damage, self._hear)
        )
        self._writer.add_log_files(
            (file.node_id, file.path, file.size_bytes, msgspec.msgpack.encode(file.parts))
            for file in source.log_files
        )

    def _hear(self, versions: Versions) -> None:
        self._versions = versions

    def _facts(self, entities: Entities, mapped: dict[int, MapResult], plan: ReducePlan) -> Meta:
        events, skipped, damage = Counter[str](), self._skipped, self._damage
        for result in mapped.values():
            events += result.events
            skipped += result.skipped
            damage.items += result.damage.items
        skipped += Counter({SkipReason.BAD_ID.value: entities.bad_ids})
        rows = {name: self._writer.count(name) for name in _TABLES}
        by_type = {f"events:{kind}": number for kind, number in sorted(events.items())}
        return msgspec.structs.replace(
            _source_facts(self._source),
            end_ms=entities.end_ms,
            session_dir=plan.context.session_dir,
            ray_version=self._versions.ray_version,
            python_version=self._versions.python_version,
            counts={"events": events.total(), **by_type, **rows},
            skipped=dict(sorted(skipped.items())),
            damage=damage.counts(),
        )


_TABLES = ("tasks", "actors", "jobs", "nodes", "workers", "cluster_events", "log_files")


def _source_facts(source: SessionSource) -> Meta:
    """What is known without reading events."""
    ref, reports = source.session, source.node_reports
    return Meta(
        schema_version=SCHEMA_VERSION,
        fingerprint=source.fingerprint,
        namespace=ref.namespace,
        cluster=ref.cluster,
        session=ref.session,
        owner_kind=ref.owner_kind,
        owner_name=ref.owner_name,
        generation=source.generation,
        state=source.state,
        start_ms=source.start_ms,
        is_end_known=bool(source.end_ms),
        dropped_events=sum(report.dropped_events for report in reports),
        quarantined_events=sum(report.quarantined_events for report in reports),
        log_gaps=sum(report.log_gaps for report in reports),
    )


@contextlib.contextmanager
def no_gc() -> Iterator[None]:
    """Pause the garbage collector: compiling makes no cycles, and its passes cost much."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
