"""Folds actors: one record over all restarts."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from historyserver.folding import wire
from historyserver.folding.ids import (
    ACTOR_ID_BYTES,
    JOB_ID_BYTES,
    NODE_ID_BYTES,
    PLACEMENT_GROUP_ID_BYTES,
    TASK_ID_BYTES,
    WORKER_ID_BYTES,
    HexIds,
)
from historyserver.folding.records import ActorRecord
from historyserver.folding.times import BadTimeError, parse_time_ns

_ORDER = {"DEPENDENCIES_UNREADY": 0, "PENDING_CREATION": 1, "ALIVE": 2, "RESTARTING": 3, "DEAD": 4}


class _Step(msgspec.Struct, array_like=True, frozen=True, order=True):
    """One transition, made so that the natural order is the order in time."""

    time_ns: int
    order: int
    state: str
    node: str
    worker: str
    repr_name: str
    pid: int
    port: int
    death_cause: str


class _DeathContext(msgspec.Struct, rename="camel"):
    node_ip_address: str = ""
    pid: int = 0


class _Death(msgspec.Struct, rename="camel"):
    actor_died_error_context: _DeathContext | None = None


@dataclass(frozen=True, slots=True)
class Incarnation:
    """Where an actor lived from a moment on."""

    alive_ns: int
    node: str
    worker: str
    pid: int


class ActorFold:
    """Actors from their definitions and transitions."""

    def __init__(self) -> None:
        self._definitions: dict[str, wire.ActorDefinition] = {}
        self._steps: dict[str, set[_Step]] = {}
        self._actor_ids = HexIds(ACTOR_ID_BYTES)
        self._job_ids = HexIds(JOB_ID_BYTES)
        self._node_ids = HexIds(NODE_ID_BYTES)
        self._worker_ids = HexIds(WORKER_ID_BYTES)
        self._task_ids = HexIds(TASK_ID_BYTES)
        self._group_ids = HexIds(PLACEMENT_GROUP_ID_BYTES)

    def define(self, definition: wire.ActorDefinition) -> None:
        """Fold a definition; of two that differ the same one stays in any order."""
        actor_id = self._actor_ids[definition.actor_id]
        self._check_ids(definition)
        known = self._definitions.get(actor_id, definition)
        self._definitions[actor_id] = max(known, definition, key=msgspec.json.encode)
        self._steps.setdefault(actor_id, set())

    def _check_ids(self, definition: wire.ActorDefinition) -> None:
        """Raise `BadIdError` now, so that one bad definition costs only itself."""
        for ids, text in (
            (self._job_ids, definition.job_id),
            (self._group_ids, definition.placement_group_id),
            (self._task_ids, definition.parent_id),
        ):
            _ = ids[text]

    def lifecycle(self, event: wire.ActorLifecycle) -> None:
        """Fold transitions; seen again, they change nothing."""
        steps = self._steps.setdefault(self._actor_ids[event.actor_id], set())
        for transition in event.state_transitions:
            try:
                time_ns = parse_time_ns(transition.timestamp)
            except BadTimeError:
                continue
            steps.add(
                _Step(
                    time_ns,
                    _ORDER.get(transition.state, -1),
                    transition.state,
                    self._node_ids[transition.node_id],
                    self._worker_ids[transition.worker_id],
                    transition.repr_name,
                    transition.pid,
                    transition.port,
                    _canonical(transition.death_cause),
                )
            )

    def latest_ns(self) -> int:
        """Give the last time that a transition tells of."""
        return max((step.time_ns for steps in self._steps.values() for step in steps), default=0)

    def actors(self, node_ips: dict[str, str]) -> list[ActorRecord]:
        """Give the actors in the order of their first transition."""
        found = [self._actor(actor_id, node_ips) for actor_id in self._steps if actor_id]
        return sorted(
            found, key=lambda a: (a.transitions[0][1] if a.transitions else 0, a.actor_id)
        )

    def incarnations(self) -> dict[str, list[Incarnation]]:
        """Tell where each actor lived, one entry per start, in time order."""
        return {
            actor_id: [
                Incarnation(step.time_ns, step.node, step.worker, step.pid)
                for step in sorted(steps)
                if step.state == "ALIVE"
            ]
            for actor_id, steps in self._steps.items()
        }

    def _actor(self, actor_id: str, node_ips: dict[str, str]) -> ActorRecord:
        definition = self._definitions.get(actor_id) or wire.ActorDefinition()
        steps = sorted(self._steps[actor_id])
        alive = [step for step in steps if step.state == "ALIVE"]
        place = alive[-1] if alive else None
        last = steps[-1] if steps else None
        record = ActorRecord(
            actor_id=actor_id,
            job_id=self._job_ids[definition.job_id] or actor_id[-2 * JOB_ID_BYTES :],
            is_detached=definition.is_detached,
            name=definition.name,
            ray_namespace=definition.ray_namespace,
            class_name=definition.class_name,
            serialized_runtime_env=definition.serialized_runtime_env,
            required_resources=definition.required_resources,
            placement_group_id=self._group_ids[definition.placement_group_id],
            label_selector=definition.label_selector,
            call_site=definition.call_site,
            parent_id=self._task_ids[definition.parent_id],
            repr_name=next((step.repr_name for step in reversed(steps) if step.repr_name), ""),
            state=last.state if last else "",
            # One restart per RESTARTING: the count itself is not exported (measured on 2.55).
            num_restarts=sum(step.state == "RESTARTING" for step in steps),
            start_ns=alive[0].time_ns if alive else 0,
            transitions=list(dict.fromkeys((step.state, step.time_ns) for step in steps)),
        )
        if place is not None:
            record.node_id, record.worker_id = place.node, place.worker
            record.pid, record.port = place.pid, place.port
            record.ip_address = node_ips.get(place.node, "")
        if last is not None and last.state == "DEAD":
            _add_death(record, steps)
        return record


def _canonical(raw: msgspec.Raw) -> str:
    """Write JSON in one way, however it came."""
    if not bytes(raw):
        return ""
    value = msgspec.json.decode(raw)
    return "" if value is None else msgspec.json.encode(value, order="sorted").decode()


def _add_death(record: ActorRecord, steps: list[_Step]) -> None:
    """Take the time from the first DEAD after the actor last lived, the cause from the last.

    Ray reports a death twice at times, a moment apart: one that is out of scope, for instance,
    when its lineage is gone too. Its own end time is the first one's, its own cause the last's.
    """
    lived_ns = max((step.time_ns for step in steps if step.state != "DEAD"), default=0)
    deaths = [step for step in steps if step.state == "DEAD" and step.time_ns >= lived_ns]
    record.end_ns = deaths[0].time_ns if deaths else 0
    record.death_cause_json = next((d.death_cause for d in reversed(deaths) if d.death_cause), "")
    if not record.death_cause_json:
        return
    try:
        death = msgspec.json.decode(record.death_cause_json, type=_Death, strict=False)
    except msgspec.MsgspecError:
        return
    context = death.actor_died_error_context or _DeathContext()
    record.pid = record.pid or context.pid
    record.ip_address = record.ip_address or context.node_ip_address
