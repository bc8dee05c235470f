"""Writes a compiled session: rows into the schema's tables, then the indices, then the facts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from historyserver.compiled.meta import Meta, meta_rows
from historyserver.compiled.schema import INDICES, TABLES
from historyserver.folding.records import ActorRecord, JobRecord, NodeRecord, WorkerRecord

PAGE_BYTES = 16384
"""A task's row with its detail is about 1 KiB: with small pages, writing and indexing is slower
by half (measured), and a page of the list touches more of them."""

TASK_COLUMNS = (
    "task_id", "attempt", "job", "state", "type", "name", "func", "language", "node", "worker",
    "pid", "actor", "parent", "placement_group", "error_type", "required_resources",
    "runtime_env", "label_selector", "call_site", "creation_ms", "start_ms", "end_ms", "detail",
    "debugger_paused", "stdout_start", "stderr_start",
)  # fmt: skip
"""The columns of `tasks` in the order in which rows are given to `add_tasks`, after one value
more in front, which orders the rows and is not stored."""

_ABSENT = (
    dict.fromkeys(TASK_COLUMNS, "0")
    | dict.fromkeys(("parent",), "x''")
    | dict.fromkeys(("pid", "debugger_paused", "stdout_start", "stderr_start"), "-1")
)
"""What stands for NULL in a column, besides None."""

_NEVER_ABSENT = frozenset({"task_id", "attempt", "state", "detail"})

TaskRow = Sequence[object]


class CompiledWriter:
    """One compiled file in the making. Not for several threads.

    The file is written without a journal and without syncing, since a half-written one is
    thrown away; whoever makes it visible renames it only after `finish`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for pragma in (
            f"page_size = {PAGE_BYTES}",
            "journal_mode = OFF",
            "synchronous = OFF",
            "locking_mode = EXCLUSIVE",
            "temp_store = MEMORY",
            "cache_size = -65536",
            f"mmap_size = {1 << 30}",
        ):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.executescript(TABLES)
        self._connection.execute("BEGIN")
        self._rows: dict[str, int] = {}

    def add_strings(self, strings: Iterable[tuple[int, str]]) -> None:
        """Add dictionary entries; every id that another table refers to must be added."""
        self._many("INSERT INTO strings VALUES (?, ?)", strings)

    def add_tasks(self, rows: Iterable[TaskRow]) -> None:
        """Add task attempts, in the order in which they are to lie (see `TASK_COLUMNS`).

        Values that are absent should be given as `_ABSENT` says, and ids as bytearray: sqlite3
        looks for an adapter of every None and bytes, which takes longer than storing the row.
        """
        marks = ", ".join(
            f"?{number}" if name in _NEVER_ABSENT else f"nullif(?{number}, {_ABSENT[name]})"
            for number, name in enumerate(TASK_COLUMNS, start=2)
        )
        self._many(f"INSERT INTO tasks ({', '.join(TASK_COLUMNS)}) VALUES ({marks})", rows)  # noqa: S608

    def add_details(self, chunks: Iterable[tuple[int, bytes]]) -> None:
        """Add chunks of details (see `compiled.details`), by number."""
        self._many("INSERT INTO task_details VALUES (?, ?)", chunks)

    def add_task_counts(self, counts: Mapping[tuple[int, int, int, int], int]) -> None:
        """Add how many attempts there are by (job, func, type, state); id 0 means absent."""
        rows = ((*(key or None for key in keys), count) for keys, count in counts.items())
        self._many("INSERT INTO task_counts VALUES (?, ?, ?, ?, ?)", rows)

    def add_actors(self, actors: Iterable[ActorRecord]) -> None:
        """Add actors, in start order."""
        encode = msgspec.msgpack.Encoder().encode
        rows = (
            (
                a.actor_id,
                a.job_id,
                a.state,
                a.class_name,
                a.name,
                a.ray_namespace,
                a.node_id,
                a.pid,
                encode(a),
            )
            for a in actors
        )
        self._many(
            "INSERT INTO actors (actor_id, job_id, state, class_name, name, ray_namespace,"
            " node_id, pid, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    def add_jobs(self, jobs: Iterable[JobRecord]) -> None:
        """Add driver jobs, in start order."""
        encode = msgspec.msgpack.Encoder().encode
        rows = ((j.job_id, j.metadata.get("job_submission_id"), encode(j)) for j in jobs)
        self._many("INSERT INTO jobs (job_id, submission_id, body) VALUES (?, ?, ?)", rows)

    def add_nodes(self, nodes: Iterable[NodeRecord]) -> None:
        """Add nodes, in start order."""
        encode = msgspec.msgpack.Encoder().encode
        rows = (
            (n.node_id, n.state, int(n.is_head), n.ip_address, n.hostname, encode(n)) for n in nodes
        )
        self._many(
            "INSERT INTO nodes (node_id, state, is_head, ip_address, hostname, body)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            rows,
        )

    def add_workers(self, workers: Iterable[WorkerRecord]) -> None:
        """Add worker processes."""
        encode = msgspec.msgpack.Encoder().encode
        rows = ((w.worker_id, w.node_id, w.pid, encode(w)) for w in workers)
        self._many("INSERT INTO workers (worker_id, node_id, pid, body) VALUES (?, ?, ?, ?)", rows)

    def add_cluster_events(self, rows: Iterable[tuple[str, str, str, str, int, str]]) -> None:
        """Add (event id, job id, source, severity, time in ms, line), in time order."""
        self._many(
            "INSERT INTO cluster_events (event_id, job_id, source_type, severity, timestamp_ms,"
            " body) VALUES (?, ?, ?, ?, ?, ?)",
            rows,
        )

    def add_snapshots(self, rows: Iterable[tuple[str, str, int, bytes]]) -> None:
        """Add (name, item, time in ms, zstd of the JSON body)."""
        self._many("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", rows)

    def add_log_files(self, rows: Iterable[tuple[str, str, int, bytes]]) -> None:
        """Add (node id, path, size, msgpack list of parts)."""
        self._many("INSERT OR REPLACE INTO log_files VALUES (?, ?, ?, ?)", rows)

    def add_rendered(self, name: str, body: bytes) -> None:
        """Add an answer that is ready to send: gzip of the JSON body."""
        self._connection.execute("INSERT INTO rendered VALUES (?, ?)", (name, body))

    def index(self) -> None:
        """Make the indices; the tables must be complete."""
        for statement in filter(None, (part.strip() for part in INDICES.split(";"))):
            self._connection.execute(statement)

    def count(self, table: str) -> int:
        """Tell how many rows a table has."""
        (rows,) = self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
        return int(rows)

    def finish(self, meta: Meta) -> None:
        """Write the facts and close. Only then is the file whole."""
        self._many("INSERT INTO meta VALUES (?, ?)", meta_rows(meta))
        self._connection.execute("COMMIT")
        self.close()

    def close(self) -> None:
        """Close the file; without `finish` before it, it is to be thrown away."""
        self._connection.close()

    def _many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        self._connection.executemany(statement, rows)
