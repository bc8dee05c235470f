"""Fixtures: the sample bucket of KubeRay's collectors, an empty store, damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from historyserver.reading.damage import DamageLog
from storage.local import LocalBackend
from tests.historyserver.reading.stored import unpack_samples


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
def damage() -> DamageLog:
    """Collects what could not be read."""
    return DamageLog()
