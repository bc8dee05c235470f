"""The stores that the contract suite runs against, one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.backend import Backend
from tests.storage.contract import FACTORIES, Store


@pytest.fixture(params=sorted(FACTORIES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each registered backend."""
    place = tmp_path / "store"
    place.mkdir()
    return Store(factory=request.param, place=place)


@pytest.fixture
def backend(store: Store) -> Backend:
    """The store, opened."""
    return store.open()
