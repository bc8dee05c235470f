"""Fixtures of the history server's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.backend import Backend
from storage.local import LocalBackend
from tests.historyserver.hand_made import HandMade


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    """An empty local store."""
    folder = tmp_path / "store"
    folder.mkdir()
    return LocalBackend(folder)


@pytest.fixture
def hand_made(tmp_path: Path, backend: Backend) -> HandMade:
    """A session to be filled by hand."""
    folder = tmp_path / "compiled"
    folder.mkdir()
    return HandMade(folder, backend)
