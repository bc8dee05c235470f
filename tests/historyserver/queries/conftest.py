"""Fixtures of the tests of queries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.historyserver.queries import session_builder


@pytest.fixture(autouse=True)
def _closed_files() -> Iterator[None]:
    """No test leaves database files open."""
    yield
    session_builder.close_all()
