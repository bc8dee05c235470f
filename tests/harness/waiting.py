"""Waits for what controllers make."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import urllib3

from tests.cluster.client import RefusedError

T = TypeVar("T")
WAIT_S = 60.0


def eventually(
    what: str, ask: Callable[[], T | None], *, within_s: float = WAIT_S, every_s: float = 0.05
) -> T:
    """Wait until something is there or true; what it is."""
    deadline_s = time.monotonic() + within_s
    found: object = None
    while time.monotonic() < deadline_s:
        with suppress(OSError, RefusedError, urllib3.exceptions.HTTPError):
            if answer := ask():
                return answer
            found = answer
        time.sleep(every_s)
    raise AssertionError(f"not within {within_s:g} s: {what}; last: {found!r}")
