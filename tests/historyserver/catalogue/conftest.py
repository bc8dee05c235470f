"""Fixtures: the sample bucket, an empty store, and a clock that tests move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from historyserver.catalogue import Catalogue
from storage.backend import Backend
from storage.local import LocalBackend
from tests.historyserver.reading.stored import unpack_samples


@dataclass
class Clock:
    """Seconds since some start, moved by hand."""

    now_s: float = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


@pytest.fixture(scope="session")
def sample_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sample bucket; read only."""
    return unpack_samples(tmp_path_factory.mktemp("kuberay"))


@pytest.fixture
def samples(sample_tree: Path) -> LocalBackend:
    """The sample bucket; read only."""
    return LocalBackend(sample_tree)


@pytest.fixture
def store(tmp_path: Path) -> LocalBackend:
    """An empty store."""
    directory = tmp_path / "store"
    directory.mkdir()
    return LocalBackend(directory)


@pytest.fixture
def clock() -> Clock:
    """Time for the age of the list."""
    return Clock()


@pytest.fixture
def catalogue_of(clock: Clock) -> Callable[[Backend], Catalogue]:
    """Makes catalogues whose list ages by the clock."""
    return lambda backend: Catalogue(backend, monotonic_s=clock)
