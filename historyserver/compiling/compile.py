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
from historyserver.compiling.crew import hire
from historyserver.compiling.entities import Entities, gather_entities
from historyserver.compiling.labour import MapResult, ReducePlan
from historyserver.compiling.plan import make_plan
from historyserver.compiling.snapshots import Versions, snapshot_rows
from historyserver.compiling.task_table import TaskTable
from historyserver.compiling.units import (
    BYTES_PER_ATTEMPT,
    SMALL_BYTES,
    Unit,
    cut,
    plain_bytes,
)
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
        forked: processes that are there already (see `servant`).

    Raises:
        StorageError: storage failed.
        SourceChangedError: something was moved since `source` was located; locate again.
        CrewError: a process died.

    """
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as name, no_gc():
        folder = Path(name)
        units = cut(backend, source.event_files)
        size_bytes = plain_bytes(source.event_files)
        if size_bytes < SMALL_BYTES:
            workers = 1
        partitions = max(workers, -(-size_bytes // (BYTES_PER_ATTEMPT * ATTEMPTS_PER_PARTITION)))
        unfinished = folder / "compiled"
        meta = _compile(
            backend, source, unfinished, units, workers=workers, partitions=partitions,
            forked=forked, started_s=started_s,
        )  # fmt: skip
        unfinished.replace(path)
    return meta


def _compile(
    backend: Backend,
    source: SessionSource,
    path: Path,
    units: list[Unit],
    *,
    workers: int,
    partitions: int,
    forked: Sequence[Connection[Any, Any]],
    started_s: float,
) -> Meta:
    folder = path.parent
    damage, skipped = DamageLog(source.damage), Counter[str]()
    with (
        hire(backend, folder, workers=workers, partitions=partitions, forked=forked) as crew,
        contextlib.closing(CompiledWriter(path)) as writer,
    ):
        mapped = crew.map(units)
        cluster_events = cluster_event_rows(backend, source.log_files, damage, skipped)
        writer.add_cluster_events(cluster_events)
        latest_ms = cluster_events[-1][4] if cluster_events else 0
        entities = gather_entities(mapped, source, latest_ms)
        plan = make_plan(mapped, entities, source.session.session)
        crew.reduce(plan, partitions)
        crew.begin_lineage(plan, entities.actor_names())
        writer.add_strings((number, text) for text, number in plan.context.string_ids.items())
        table = TaskTable(folder, partitions, plan.context.string_ids)
        writer.add_tasks(table.rows())
        writer.add_details(table.details())
        writer.add_strings((number, text) for text, number in table.late_strings.items())
        writer.add_task_counts(table.counts)
        _add_entities(writer, entities, table)
        told: list[Versions] = []
        writer.add_snapshots(snapshot_rows(backend, source.snapshots, damage, told.append))
        writer.add_log_files(
            (file.node_id, file.path, file.size_bytes, msgspec.msgpack.encode(file.parts))
            for file in source.log_files
        )
        for name, body in crew.lineage().items():
            writer.add_rendered(name, body)
        writer.index()
        meta = _meta(source, entities, mapped, damage=damage, skipped=skipped, plan=plan)
        meta = msgspec.structs.replace(
            meta,
            counts={**meta.counts, **{name: writer.count(name) for name in _TABLES}},
            ray_version=meta.ray_version or next((one.ray_version for one in told), ""),
            python_version=next((one.python_version for one in told), ""),
            compiled_ms=time.time_ns() // 1_000_000,
            compile_duration_ms=int((time.monotonic() - started_s) * 1000),
        )
        writer.finish(meta)
    return meta


_TABLES = ("tasks", "actors", "jobs", "nodes", "workers", "cluster_events", "log_files")


def _add_entities(writer: CompiledWriter, entities: Entities, table: TaskTable) -> None:
    writer.add_actors(entities.actors)
    writer.add_jobs(entities.jobs)
    writer.add_nodes(entities.nodes)
    writer.add_workers(entities.with_workers(table.workers()))


def _meta(
    source: SessionSource,
    entities: Entities,
    mapped: dict[int, MapResult],
    *,
    damage: DamageLog,
    skipped: Counter[str],
    plan: ReducePlan,
) -> Meta:
    events = Counter[str]()
    for result in mapped.values():
        events += result.events
        skipped += result.skipped
        damage.items += result.damage.items
    skipped += Counter({"bad_id": entities.bad_ids})
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
        end_ms=entities.end_ms,
        is_end_known=bool(source.end_ms),
        session_dir=plan.context.session_dir,
        ray_version=source.ray_version,
        counts={"events": events.total(), **{f"events:{k}": n for k, n in sorted(events.items())}},
        skipped=dict(sorted(skipped.items())),
        damage=damage.counts(),
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
