"""The state of a task attempt while events are folded: what came so far, in any order.

Owner and executor report the same attempt from two nodes, in several events that may come
late, twice or not at all. So each field keeps what its own events say, and two half-known
attempts merge into the same whole in either order: sets are united, and of two values for one
field the later one (then the larger one) stays.
"""

from __future__ import annotations

import msgspec

NO_SHAPE = -1
UNKNOWN = -1

LogOffsets = tuple[str, str, int, int, int, int]
"""stdout file, stderr file, stdout start and end, stderr start and end; `UNKNOWN` offsets."""


class Attempt(msgspec.Struct, array_like=True, gc=False):
    """What is known of one attempt. Encodes to msgpack, so that processes can exchange it."""

    task_id: bytes
    number: int
    shape: int = NO_SHAPE
    parent: bytes = b""
    transitions: list[int | str] = []
    """State and time (ns) in turn: order number of the state, or its name when not known."""
    node: str = ""
    worker: str = ""
    placed_ns: int = 0
    """When the event came that says node and worker: the latest one counts."""
    pid: int = 0
    pid_ns: int = 0
    log: LogOffsets | None = None
    error: tuple[int, str, str] | None = None
    """Time (ns), type, message."""
    profiles: list[bytes] = []
    """Each a `records.Profile` as msgpack."""
    paused: tuple[int, bool] | None = None
    repr_name: str = ""


def merge_attempts(into: Attempt, other: Attempt) -> None:
    """Unite two parts of one attempt; `other` is not to be used after."""
    into.shape = max(into.shape, other.shape)
    into.parent = max(into.parent, other.parent)
    into.transitions += other.transitions
    into.placed_ns, into.node, into.worker = max(
        (into.placed_ns, into.node, into.worker), (other.placed_ns, other.node, other.worker)
    )
    into.pid_ns, into.pid = max((into.pid_ns, into.pid), (other.pid_ns, other.pid))
    if other.log is not None:
        into.log = other.log if into.log is None else merge_logs(into.log, other.log)
    if other.error is not None and (into.error is None or other.error > into.error):
        into.error = other.error
    if other.profiles:
        into.profiles += other.profiles
    if other.paused is not None and (into.paused is None or other.paused > into.paused):
        into.paused = other.paused
    into.repr_name = max(into.repr_name, other.repr_name)


def merge_logs(one: LogOffsets, other: LogOffsets) -> LogOffsets:
    """Unite what two events say of an attempt's output: known beats unknown."""
    return (
        max(one[0], other[0]),
        max(one[1], other[1]),
        max(one[2], other[2]),
        max(one[3], other[3]),
        max(one[4], other[4]),
        max(one[5], other[5]),
    )
