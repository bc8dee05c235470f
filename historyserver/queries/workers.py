"""Worker processes: snapshots joined with events (Ray 2.60) or with what tasks and actors tell.

A worker that a snapshot saw alive cannot outlive its session: it is shown as not alive, with a
message, and ends with the session.
"""

from __future__ import annotations

from typing import Any

import msgspec

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import WorkerRecord
from historyserver.queries import snapshots
from historyserver.queries.columns import WORKERS
from historyserver.queries.matching import answer_list
from historyserver.queries.options import ListOptions
from historyserver.queries.session_end import ended_message, is_over
from storage import endpoints

UNKNOWN_TIME = 2**64 - 1
"""What Ray prints for a launch time that it does not know (-1 as unsigned)."""

_decode = msgspec.msgpack.Decoder(WorkerRecord).decode


def list_workers(session: CompiledSession, options: ListOptions) -> dict[str, Any]:
    """`/api/v0/workers`. Raises `QueryError`."""
    known = dict(snapshots.items(session, endpoints.WORKERS))
    rows = []
    for (body,) in session.connection().execute("SELECT body FROM workers ORDER BY row"):
        worker = _decode(body)
        rows.append(_row(worker, known.pop(worker.worker_id, {})))
    rows += [dict(row) for row in known.values()]
    if is_over(session):
        rows = [_closed(session, row) for row in rows]
    return answer_list(rows, options, WORKERS, sort_key=lambda row: row.get("worker_id") or "")


def _row(worker: WorkerRecord, known: dict[str, Any]) -> dict[str, Any]:
    died = bool(worker.end_ms or worker.exit_type or worker.state == "DEAD")
    row = {
        "worker_id": worker.worker_id,
        "is_alive": bool(known.get("is_alive", True)) and not died,
        "worker_type": worker.worker_type or "WORKER",
        "exit_type": None,
        "node_id": worker.node_id,
        "ip": worker.ip_address,
        "pid": worker.pid,
        "exit_detail": None,
        "worker_launch_time_ms": worker.launch_ms or UNKNOWN_TIME,
        "worker_launched_time_ms": worker.launched_ms or UNKNOWN_TIME,
        "start_time_ms": worker.start_ms,
        "end_time_ms": 0,
        "debugger_port": None,
        "num_paused_threads": None,
    }
    row |= {name: value for name, value in known.items() if name != "is_alive"}
    if died:
        row["end_time_ms"] = worker.end_ms or row["end_time_ms"]
        row["exit_type"] = worker.exit_type or row["exit_type"]
        row["exit_detail"] = worker.exit_detail or row["exit_detail"]
    return row


def _closed(session: CompiledSession, row: dict[str, Any]) -> dict[str, Any]:
    if row.get("is_alive"):
        row["is_alive"] = False
        row["exit_detail"] = ended_message(session, "worker", "alive")
        row["end_time_ms"] = session.meta.end_ms
    return row
