"""Ray's task states, in the order in which a task passes through them.

The order decides an attempt's state: its last state is the one furthest along, as Ray's state
API has it, not the one with the latest time, since owner and executor have different clocks.
Ray declares GETTING_AND_PINNING_ARGS after the final states; here it stands where it happens,
so that a finished task is finished.
"""

from __future__ import annotations

STATES = (
    "NIL",
    "PENDING_ARGS_AVAIL",
    "PENDING_NODE_ASSIGNMENT",
    "PENDING_OBJ_STORE_MEM_AVAIL",
    "PENDING_ARGS_FETCH",
    "SUBMITTED_TO_WORKER",
    "PENDING_ACTOR_TASK_ARGS_FETCH",
    "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY",
    "GETTING_AND_PINNING_ARGS",
    "RUNNING",
    "RUNNING_IN_RAY_GET",
    "RUNNING_IN_RAY_WAIT",
    "FINISHED",
    "FAILED",
)

_LAST_FOR_RAY = "GETTING_AND_PINNING_ARGS"
RAY_NUMBERS = {
    name: number
    for number, name in enumerate(
        (*(name for name in STATES if name != _LAST_FOR_RAY), _LAST_FOR_RAY)
    )
}
"""Ray's own TaskStatus numbers. Ray lists an attempt's events in this order, one per state."""

ORDER = {name: order for order, name in enumerate(STATES)}
CREATED = ORDER["PENDING_ARGS_AVAIL"]
RUNNING = ORDER["RUNNING"]
FINISHED = ORDER["FINISHED"]
FAILED = ORDER["FAILED"]


def order_of(state: int | str) -> tuple[int, str]:
    """Sort key of a state; a name that this version does not know stands before RUNNING."""
    if isinstance(state, int):
        return (state, "")
    return (RUNNING - 1, state)


def name_of(state: int | str) -> str:
    """Ray's name of a state."""
    return STATES[state] if isinstance(state, int) else state
