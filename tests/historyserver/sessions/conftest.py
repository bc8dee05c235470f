"""Fixtures of tests of sessions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from historyserver.sessions import Sessions
from storage.local.backend import LocalBackend
from tests.harness.compiled_samples import kuberay_samples
from tests.historyserver.hand_made import stored_sessions
from tests.historyserver.sessions.stored_samples import Clock


@pytest.fixture
def bucket(tmp_path: Path) -> LocalBackend:
    """A bucket with the sample sessions, to be written to."""
    shutil.copytree(kuberay_samples() / "tree", tmp_path / "bucket")
    return LocalBackend(tmp_path / "bucket")


@pytest.fixture
def clock() -> Clock:
    """The clock of the sessions."""
    return Clock()


@pytest.fixture
def sessions(bucket: LocalBackend, tmp_path: Path, clock: Clock) -> Iterator[Sessions]:
    """Sessions with an empty cache."""
    found = stored_sessions(bucket, tmp_path / "cache", monotonic_s=clock)
    yield found
    found.close()
