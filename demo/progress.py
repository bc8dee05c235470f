"""Progress lines with timings, on standard output."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to do."""


class Progress:
    """Prints what happens, with the seconds since the start."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """One line."""
        print(f"[{time.monotonic() - self._started:5.1f} s] {text}", flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """A line at the start of a step, and one with its duration at its end."""
        self.say(f"{text} ...")
        began = time.monotonic()
        yield
        self.say(f"{text}: done in {time.monotonic() - began:.1f} s")
