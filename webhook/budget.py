"""How much time a review has left: all its look-ups together are bounded, not each alone.

The API server waits 5 s (`timeoutSeconds` of the configuration); an answer after that is none.
A live call within a review takes `left_s(its own limit)` as its time-out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

REVIEW_S = 2.0
"""For the look-ups of one review, all together."""
SHORTEST_S = 0.05
"""What a call gets when nothing is left: it fails at once, and says what it was."""

_deadline_s: ContextVar[float] = ContextVar("review_deadline_s")


@contextmanager
def review_budget(seconds: float) -> Iterator[None]:
    """Start the clock of one review for all that this thread asks within."""
    token = _deadline_s.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline_s.reset(token)


def left_s(limit_s: float) -> float:
    """The time for one call: `limit_s`, or what the review has left if that is less."""
    deadline_s = _deadline_s.get(None)
    if deadline_s is None:
        return limit_s
    return max(SHORTEST_S, min(limit_s, deadline_s - time.monotonic()))


def is_spent() -> bool:
    """Whether the review's time is over."""
    deadline_s = _deadline_s.get(None)
    return deadline_s is not None and time.monotonic() >= deadline_s
