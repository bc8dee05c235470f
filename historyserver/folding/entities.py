"""Folds what is few: jobs, nodes and workers (and, in `actors`, actors)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from historyserver.folding import wire
from historyserver.folding.actors import ActorFold, Incarnation
from historyserver.folding.ids import (
    JOB_ID_BYTES,
    NODE_ID_BYTES,
    WORKER_ID_BYTES,
    BadIdError,
    HexIds,
)
from historyserver.folding.records import ActorRecord, JobRecord, NodeRecord, WorkerRecord
from historyserver.folding.times import BadTimeError, parse_time_ns

HEAD_RESOURCE = "node:__internal_head__"
"""The resource that Ray gives to the head node only."""

MAX_UINT64 = 2**64 - 1

_Payload = TypeVar("_Payload", bound=msgspec.Struct)


def larger(one: _Payload | None, other: _Payload) -> _Payload:
    """Choose between two definitions of one entity: always the same one, whatever the order."""
    if one is None or one == other:
        return other
    return max(one, other, key=msgspec.json.encode)


def time_or_zero(text: str) -> int:
    """Read a time; one that cannot be read counts as not told."""
    try:
        return parse_time_ns(text)
    except BadTimeError:
        return 0


class EntityFold:
    """Jobs, nodes, workers and actors from their events, in any order and number."""

    def __init__(self) -> None:
        self.latest_ns = 0
        self._jobs: dict[str, wire.DriverJobDefinition | None] = {}
        self._job_states: dict[str, set[tuple[int, str]]] = {}
        self._nodes: dict[str, wire.NodeDefinition | None] = {}
        self._node_states: dict[str, dict[bytes, wire.NodeTransition]] = {}
        self._workers: dict[str, wire.WorkerDefinition | None] = {}
        self._worker_states: dict[str, dict[bytes, wire.WorkerTransition]] = {}
        self._worker_jobs: dict[str, str] = {}
        self._actors = ActorFold()
        self._job_ids = HexIds(JOB_ID_BYTES)
        self._node_ids = HexIds(NODE_ID_BYTES)
        self._worker_ids = HexIds(WORKER_ID_BYTES)

    def fold(self, events: Iterable[wire.Event]) -> int:
        """Fold events; those of tasks are ignored. Returns how many had an unreadable id."""
        bad = 0
        for event in events:
            try:
                self._fold_one(event)
            except BadIdError:
                bad += 1
        return bad

    def _fold_one(self, event: wire.Event) -> None:
        if event.actor_definition_event is not None:
            self._actors.define(event.actor_definition_event)
        elif event.actor_lifecycle_event is not None:
            self._actors.lifecycle(event.actor_lifecycle_event)
        elif (job := event.driver_job_definition_event) is not None:
            job_id = self._job_ids[job.job_id]
            _ = self._node_ids[job.driver_node_id]  # raises now, so that it costs only this event
            self._jobs[job_id] = larger(self._jobs.get(job_id), job)
        elif event.driver_job_lifecycle_event is not None:
            self._job_lifecycle(event.driver_job_lifecycle_event)
        elif (node := event.node_definition_event) is not None:
            node_id = self._node_ids[node.node_id]
            self._nodes[node_id] = larger(self._nodes.get(node_id), node)
        elif (states := event.node_lifecycle_event) is not None:
            node_id = self._node_ids[states.node_id]
            self._nodes.setdefault(node_id, None)
            known = self._node_states.setdefault(node_id, {})
            known.update({msgspec.json.encode(t): t for t in states.state_transitions})
        elif (worker := event.worker_definition_event) is not None:
            worker_id = self._worker_ids[worker.worker_id]
            _ = self._node_ids[worker.node_id]
            self._workers[worker_id] = larger(self._workers.get(worker_id), worker)
        elif event.worker_lifecycle_event is not None:
            self._worker_lifecycle(event.worker_lifecycle_event)

    def _job_lifecycle(self, event: wire.DriverJobLifecycle) -> None:
        job_id = self._job_ids[event.job_id]
        self._jobs.setdefault(job_id, None)
        states = self._job_states.setdefault(job_id, set())
        states.update((time_or_zero(t.timestamp), t.state) for t in event.state_transitions)

    def _worker_lifecycle(self, event: wire.WorkerLifecycle) -> None:
        worker_id = self._worker_ids[event.worker_id]
        self._workers.setdefault(worker_id, None)
        job_id = self._job_ids[event.job_id]
        self._worker_jobs[worker_id] = max(self._worker_jobs.get(worker_id, ""), job_id)
        known = self._worker_states.setdefault(worker_id, {})
        known.update({msgspec.json.encode(t): t for t in event.state_transitions})

    def jobs(self) -> list[JobRecord]:
        """Give the driver jobs in start order."""
        found = [self._job(job_id, job) for job_id, job in self._jobs.items() if job_id]
        return sorted(found, key=lambda job: (job.start_ns, job.job_id))

    def nodes(self) -> list[NodeRecord]:
        """Give the nodes in start order."""
        found = [self._node(node_id, node) for node_id, node in self._nodes.items() if node_id]
        return sorted(found, key=lambda node: (node.start_ns, node.node_id))

    def actors(self) -> list[ActorRecord]:
        """Give the actors in start order."""
        return self._actors.actors({node.node_id: node.ip_address for node in self.nodes()})

    def incarnations(self) -> dict[str, list[Incarnation]]:
        """Tell where each actor lived, one entry per start."""
        return self._actors.incarnations()

    def workers(self) -> list[WorkerRecord]:
        """Give the workers that events tell of (Ray 2.60 on)."""
        ips = {node.node_id: node.ip_address for node in self.nodes()}
        found = [self._worker(worker_id, ips) for worker_id in self._workers if worker_id]
        return sorted(found, key=lambda worker: (worker.start_ms, worker.worker_id))

    def latest(self) -> int:
        """Give the last time (ns) that any of these events tells of."""
        times = [ns for states in self._job_states.values() for ns, _ in states]
        for nodes in self._node_states.values():
            times += [time_or_zero(t.timestamp) for t in nodes.values()]
        for workers in self._worker_states.values():
            times += [time_or_zero(t.timestamp) for t in workers.values()]
        return max([*times, self._actors.latest_ns()], default=0)

    def _job(self, job_id: str, definition: wire.DriverJobDefinition | None) -> JobRecord:
        job = definition or wire.DriverJobDefinition()
        config = job.config or wire.JobConfig()
        states = self._job_states.get(job_id, set())
        created = [ns for ns, state in states if state == "CREATED"]
        finished = [ns for ns, state in states if state == "FINISHED"]
        return JobRecord(
            job_id=job_id,
            driver_pid=job.driver_pid,
            driver_node_id=self._node_ids[job.driver_node_id],
            entrypoint=job.entrypoint,
            serialized_runtime_env=config.serialized_runtime_env,
            metadata=config.metadata,
            state="FINISHED" if finished else "CREATED",
            start_ns=min(created, default=0),
            end_ns=max(finished, default=0),
        )

    def _node(self, node_id: str, definition: wire.NodeDefinition | None) -> NodeRecord:
        node = definition or wire.NodeDefinition()
        states = sorted(
            (time_or_zero(t.timestamp), t.state == "DEAD", key, t)
            for key, t in self._node_states.get(node_id, {}).items()
        )
        alive = [(ns, t) for ns, _, _, t in states if t.state == "ALIVE"]
        dead = [(ns, t) for ns, _, _, t in states if t.state == "DEAD"]
        death = next((t.death_info for _, t in dead if t.death_info), None) or wire.NodeDeath()
        resources = next((t.resources for _, t in reversed(alive) if t.resources), {})
        started_ns = time_or_zero(node.start_timestamp)
        return NodeRecord(
            node_id=node_id,
            ip_address=node.node_ip_address,
            hostname=node.hostname,
            node_name=node.node_name,
            instance_id=node.instance_id,
            instance_type_name=node.instance_type_name,
            labels=node.labels,
            state="DEAD" if dead else "ALIVE",
            resources_total=resources,
            start_ns=started_ns or (alive[0][0] if alive else 0),
            end_ns=dead[0][0] if dead else 0,
            death_reason=death.reason,
            death_message=death.reason_message,
            is_head=any(HEAD_RESOURCE in t.resources for _, t in alive),
        )

    def _worker(self, worker_id: str, ips: dict[str, str]) -> WorkerRecord:
        worker = self._workers[worker_id] or wire.WorkerDefinition()
        states = list(self._worker_states.get(worker_id, {}).values())
        deaths = [t.death_info for t in states if t.death_info is not None]
        death = max(deaths, key=msgspec.json.encode, default=wire.WorkerDeath())
        node_id = self._node_ids[worker.node_id]

        def latest(times: list[int]) -> int:
            return min(max(times, default=0), MAX_UINT64)

        return WorkerRecord(
            worker_id=worker_id,
            node_id=node_id,
            job_id=self._worker_jobs.get(worker_id, ""),
            pid=worker.pid,
            worker_type=worker.worker_type,
            state="DEAD" if any(t.state == "DEAD" for t in states) else "ALIVE",
            ip_address=ips.get(node_id, ""),
            launch_ms=latest([t.worker_launch_time_ms for t in states]),
            launched_ms=latest([t.worker_launched_time_ms for t in states]),
            start_ms=latest([t.start_time_ms for t in states]),
            end_ms=latest([t.end_time_ms for t in states]),
            exit_type=death.exit_type,
            exit_detail=death.exit_detail,
        )
