"""Which time counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from certs.clock import ServerClock

LOCAL = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def clock(ahead: timedelta) -> ServerClock:
    """After an answer of an API server that is `ahead` of us."""
    made = ServerClock(lambda: LOCAL)
    made.observe(format_datetime(LOCAL + ahead, usegmt=True))
    return made


@pytest.mark.parametrize("seconds", [-60, -1, 0, 60])
def test_small_differences_mean_nothing(seconds: int) -> None:
    """A `Date` has whole seconds, and answers take time."""
    assert clock(timedelta(seconds=seconds)).now() == LOCAL


@pytest.mark.parametrize("ahead", [timedelta(days=-400), timedelta(minutes=-2), timedelta(hours=3)])
def test_a_wrong_clock_is_corrected(ahead: timedelta) -> None:
    """The API server is who verifies certificates."""
    made = clock(ahead)
    assert made.now() == LOCAL + ahead
    assert made.offset_s == ahead.total_seconds()


@pytest.mark.parametrize("date", [None, "", "soon", "Mon, 99 Foo 2026 25:00:00 GMT"])
def test_an_answer_without_a_date_changes_nothing(date: str | None) -> None:
    """A proxy may have taken it away."""
    made = clock(timedelta(hours=3))
    made.observe(date)
    assert made.now() == LOCAL + timedelta(hours=3)


def test_a_clock_that_is_put_right_is_used_again() -> None:
    """The next answer tells."""
    made = clock(timedelta(hours=3))
    made.observe(format_datetime(LOCAL, usegmt=True))
    assert not made.is_wrong
    assert made.now() == LOCAL
