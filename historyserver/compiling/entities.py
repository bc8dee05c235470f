"""Brings what all mappers saw of jobs, nodes, actors and workers together, and closes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from historyserver.compiling.map_reduce import MapResult
from historyserver.folding.actors import Incarnation
from historyserver.folding.closing import Closing
from historyserver.folding.entities import EntityFold
from historyserver.folding.records import ActorRecord, JobRecord, NodeRecord, WorkerRecord
from historyserver.folding.session_state import SessionState
from historyserver.folding.times import NS_PER_MS
from historyserver.folding.wire import Event
from historyserver.reading.source import SessionSource


@dataclass(frozen=True, slots=True)
class Entities:
    """What is few in a session, closed when the session is over."""

    actors: list[ActorRecord]
    jobs: list[JobRecord]
    nodes: list[NodeRecord]
    workers: list[WorkerRecord]
    incarnations: dict[str, list[Incarnation]]
    closing: Closing | None
    job_ends_ns: dict[bytes, int]
    """When the driver of each finished job exited, by the job's id."""
    end_ms: int
    bad_ids: int

    def actor_names(self) -> dict[str, str]:
        """Tell what the progress view calls each actor."""
        return {actor.actor_id: actor.repr_name or actor.class_name for actor in self.actors}

    def with_workers(self, from_tasks: Iterable[WorkerRecord]) -> list[WorkerRecord]:
        """Add the workers that only tasks and actors tell of to those with events of their own."""
        found = {worker.worker_id: worker for worker in self.workers}
        ips = {node.node_id: node.ip_address for node in self.nodes}
        for actor in self.actors:
            if actor.worker_id and actor.worker_id not in found:
                found[actor.worker_id] = WorkerRecord(
                    worker_id=actor.worker_id,
                    node_id=actor.node_id,
                    job_id=actor.job_id,
                    pid=actor.pid,
                    worker_type="WORKER",
                )
        for worker in from_tasks:
            known = found.setdefault(worker.worker_id, worker)
            known.pid = known.pid or worker.pid
        for worker in found.values():
            worker.ip_address = worker.ip_address or ips.get(worker.node_id, "")
            worker.state = "DEAD" if self.closing is not None else worker.state or "ALIVE"
        return sorted(found.values(), key=lambda worker: (worker.start_ms, worker.worker_id))


def gather_entities(
    mapped: dict[int, MapResult], source: SessionSource, latest_ms: int
) -> Entities:
    """Fold the few events of all mappers.

    Args:
        mapped: the mappers' results.
        source: tells whether and when the session ended.
        latest_ms: the last time that anything else tells of.

    """
    decode = msgspec.json.Decoder(Event, strict=False).decode
    fold = EntityFold()
    lines = dict.fromkeys(line for result in mapped.values() for line in result.entity_lines)
    bad_ids = fold.fold(decode(line) for line in lines)
    latest_ns = max([fold.latest(), *(result.latest_ns for result in mapped.values())])
    end_ms = source.end_ms or max(latest_ns // NS_PER_MS, latest_ms, source.start_ms)
    closing = None if source.state == SessionState.RUNNING else Closing(end_ms)
    actors, jobs, nodes = fold.actors(), fold.jobs(), fold.nodes()
    job_ends_ns = {bytes.fromhex(job.job_id): job.end_ns for job in jobs if job.state == "FINISHED"}
    if closing is not None:
        for actor in actors:
            closing.close_actor(actor)
        for job in jobs:
            closing.close_job(job)
        for node in nodes:
            closing.close_node(node)
    return Entities(
        actors=actors,
        jobs=jobs,
        nodes=nodes,
        workers=fold.workers(),
        incarnations=fold.incarnations(),
        closing=closing,
        job_ends_ns=job_ends_ns,
        end_ms=0 if closing is None else end_ms,
        bad_ids=bad_ids,
    )
