"""Fixtures of tests of reading."""

from __future__ import annotations

import pytest

from historyserver.reading.damage import DamageLog


@pytest.fixture
def damage() -> DamageLog:
    """Collects what could not be read."""
    return DamageLog()
