"""How long to wait before asking again, so that many replicas do not ask in step."""

from __future__ import annotations

import random


class Backoff:
    """Doubles from `first_s` to `most_s`; each wait is between half and all of it."""

    def __init__(self, *, first_s: float = 0.5, most_s: float = 10.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s

    def next_s(self) -> float:
        """The next wait."""
        wait_s = self._next_s
        self._next_s = min(self._most_s, wait_s * 2)
        return jittered_s(wait_s)

    def reset(self) -> None:
        """Begin anew after a success."""
        self._next_s = self._first_s


def jittered_s(seconds: float) -> float:
    """Between half and all of `seconds`."""
    return seconds * random.uniform(0.5, 1.0)
