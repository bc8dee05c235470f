"""Folds blocks of event lines: tasks at once, the few other events kept for the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from historyserver.folding.decoding import Decoder
from historyserver.folding.ids import BadIdError
from historyserver.folding.skips import SkipReason, UnusableEventError
from historyserver.folding.task_events import TaskFold
from historyserver.folding.wire import Event

ENTITY_PAYLOADS = {
    "ACTOR_DEFINITION_EVENT": "actor_definition_event",
    "ACTOR_LIFECYCLE_EVENT": "actor_lifecycle_event",
    "DRIVER_JOB_DEFINITION_EVENT": "driver_job_definition_event",
    "DRIVER_JOB_LIFECYCLE_EVENT": "driver_job_lifecycle_event",
    "NODE_DEFINITION_EVENT": "node_definition_event",
    "NODE_LIFECYCLE_EVENT": "node_lifecycle_event",
    "WORKER_DEFINITION_EVENT": "worker_definition_event",
    "WORKER_LIFECYCLE_EVENT": "worker_lifecycle_event",
}
"""Event type to payload, of the events that are few: one per actor, job, node, worker."""


_encode = msgspec.json.Encoder().encode


class Folder:
    """What one process folds. Task events go into `tasks`, the rest waits in `entity_lines`."""

    def __init__(self) -> None:
        self.skipped: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        """Events per type, unknown types included."""
        self.tasks = TaskFold(self.skipped)
        self.entity_lines: dict[bytes, None] = {}
        """The events of `ENTITY_PAYLOADS`, encoded again, each once."""
        self._decoder = Decoder(self.skipped)
        self._handlers: dict[str, Callable[[Event], None]] = {
            "TASK_LIFECYCLE_EVENT": self.tasks.lifecycle,
            "TASK_DEFINITION_EVENT": self.tasks.define,
            "TASK_PROFILE_EVENT": self.tasks.profile,
            "ACTOR_TASK_DEFINITION_EVENT": self.tasks.define_call,
            **dict.fromkeys(ENTITY_PAYLOADS, self._keep),
        }

    def fold(self, block: bytes) -> None:
        """Fold a block of complete JSON lines. Nothing of the block is kept."""
        events = self._decoder.decode(block)
        self.events.update([event.event_type for event in events])
        handlers = self._handlers
        for event in events:
            try:
                handlers[event.event_type](event)
            except KeyError:
                self.skipped[SkipReason.UNKNOWN_TYPE] += 1
            except BadIdError:
                self.skipped[SkipReason.BAD_ID] += 1
            except UnusableEventError as error:
                self.skipped[error.reason] += 1

    def _keep(self, event: Event) -> None:
        if getattr(event, ENTITY_PAYLOADS[event.event_type]) is None:
            raise UnusableEventError(SkipReason.NO_PAYLOAD)
        self.entity_lines[_encode(event)] = None
