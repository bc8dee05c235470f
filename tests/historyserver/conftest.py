"""Fixtures of the history server's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.backend import Backend
from storage.local import LocalBackend
from tests.historyserver.hand_made import HandMade
from tests.historyserver.reading.stored import unpack_samples


@pytest.fixture(scope="session")
def sample_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sample bucket of KubeRay's collectors; read only."""
    return unpack_samples(tmp_path_factory.mktemp("kuberay"))


@pytest.fixture
def samples(sample_tree: Path) -> LocalBackend:
    """The sample bucket; read only."""
    return LocalBackend(sample_tree)


@pytest.fixture
def store(tmp_path: Path) -> LocalBackend:
    """An empty local store."""
    directory = tmp_path / "store"
    directory.mkdir()
    return LocalBackend(directory)


@pytest.fixture
def backend(store: LocalBackend) -> Backend:
    """The empty store, for tests that need not know what it is."""
    return store


@pytest.fixture
def hand_made(tmp_path: Path, backend: Backend) -> HandMade:
    """A session to be filled by hand."""
    folder = tmp_path / "compiled"
    folder.mkdir()
    return HandMade(folder, backend)
