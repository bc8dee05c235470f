"""Fixtures: a clock that tests move, and lists that age by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from historyserver.catalogue import Catalogue
from storage.backend import Backend


@dataclass
class Clock:
    """Seconds since some start, moved by hand."""

    now_s: float = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """Time for the age of the list."""
    return Clock()


@pytest.fixture
def catalogue_of(clock: Clock) -> Callable[[Backend], Catalogue]:
    """Makes catalogues whose list ages by the clock."""
    return lambda backend: Catalogue(backend, monotonic_s=clock)
