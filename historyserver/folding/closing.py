"""Closes what the end of a session left open: honestly, and so that one can tell.

Ray never exports its head's own end (measured), so a dead session has tasks that run for ever
and nodes that live. Closing is a step of its own after folding: the record gets a final state,
a message that says what is not known, and `closed_state` keeps what Ray said last. Transitions
stay as Ray reported them. A running session is not closed.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from historyserver.folding.records import ActorRecord, JobRecord, NodeRecord
from historyserver.folding.times import NS_PER_MS, utc_text

ERROR_TYPE = "SESSION_ENDED"
"""The error type of closed task attempts; Ray has none of this name."""

FINAL_TASK_STATES = frozenset({"FINISHED", "FAILED"})

JOB_ENDED_ERROR_TYPE = "WORKER_DIED"
"""What Ray's GCS gives the open attempts of a job whose driver exited (measured on 2.55)."""


def job_ended_message(job_id: str) -> str:
    """Say what Ray's GCS says of such an attempt."""
    return f"Job finishes ({job_id}) as driver exits. Marking all non-terminal tasks as failed."


@dataclass(frozen=True, slots=True)
class Closing:
    """How to close: when the session ended."""

    end_ms: int

    @property
    def end_ns(self) -> int:
        """The end in the unit of records."""
        return self.end_ms * NS_PER_MS

    def message(self, what: str, state: str) -> str:
        """Say in words that the session's end closed something."""
        return (
            f"The Ray session ended at {utc_text(self.end_ms)} while this {what} was"
            f" {state or 'in no known state'}; whether it finished is not known."
        )

    def node_message(self, state: str) -> str:
        """Say so of a node, which ends with its session: nothing about it is unknown."""
        return f"The Ray session ended at {utc_text(self.end_ms)} while this node was {state}."

    def close_actor(self, actor: ActorRecord) -> None:
        """Make an actor that was not DEAD a dead one."""
        if actor.state == "DEAD":
            return
        message = self.message("actor", actor.state)
        context = {"errorMessage": message, "actorId": actor.actor_id}
        actor.death_cause_json = msgspec.json.encode({"actorDiedErrorContext": context}).decode()
        actor.closed_state, actor.state = actor.state, "DEAD"
        actor.end_ns = max(self.end_ns, actor.start_ns)

    def close_node(self, node: NodeRecord) -> None:
        """Make a node that was not DEAD a dead one."""
        if node.state == "DEAD":
            return
        node.death_reason = ERROR_TYPE
        node.death_message = self.node_message(node.state)
        node.closed_state, node.state = node.state, "DEAD"
        node.end_ns = max(self.end_ns, node.start_ns)

    def close_job(self, job: JobRecord) -> None:
        """End a driver job that never reported its end."""
        if job.state == "FINISHED":
            return
        job.closed_state, job.state = job.state, "FAILED"
        job.end_ns = max(self.end_ns, job.start_ns)
