"""The gauges of the logs: sums over the sessions of this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.ray_session import session_of
from collector.shipping.metrics import ShippingMetrics
from collector.tails import LogTails
from tests.collector.events import NODE, OLD_SESSION, SESSION
from tests.collector.tails.tail_kit import drain

Value = Callable[..., float]


@pytest.fixture
def metrics() -> ShippingMetrics:
    return ShippingMetrics()


@pytest.fixture
def value(metrics: ShippingMetrics) -> Value:
    def read(name: str, **labels: str) -> float:
        found = metrics.registry.get_sample_value(f"rayhistory_collector_{name}", labels)
        assert found is not None, name
        return found

    return read


def tails_of(
    tmp_path: Path, session: str, *, content: bytes, retain_bytes: int = 2**30
) -> LogTails:
    made = session_of(tmp_path, session, NODE)
    made.logs_dir.mkdir(parents=True)
    (made.logs_dir / "x.out").write_bytes(content)
    (made.logs_dir / "link").symlink_to("/etc/hostname")
    tails = LogTails(made, retain_bytes=retain_bytes)
    tails.scan()
    return tails


def test_two_sessions_are_added_up(tmp_path: Path, metrics: ShippingMetrics, value: Value) -> None:
    """Ray restarted: the old session is finished beside the new one, and both have logs."""
    old = tails_of(tmp_path, OLD_SESSION, content=b"x" * 100)
    new = tails_of(tmp_path, SESSION, content=b"x" * 11)
    for _ in range(2):
        metrics.tell_logs((OLD_SESSION, NODE), old)
        metrics.tell_logs((SESSION, NODE), new)
    assert (value("unread_log_bytes"), value("logs_followed")) == (111, 2)
    assert value("logs_skipped", reason="outside_session") == 2
    drain(old)
    metrics.tell_logs((OLD_SESSION, NODE), old, over=True)
    assert (value("unread_log_bytes"), value("logs_followed")) == (11, 1)
    assert value("logs_skipped", reason="outside_session") == 1


def test_a_loss_stays_told_when_its_session_is_over(
    tmp_path: Path, metrics: ShippingMetrics, value: Value
) -> None:
    """Whoever looks a minute later must still see it; each end is counted once."""
    old = tails_of(tmp_path, OLD_SESSION, content=b"x" * 100, retain_bytes=50)
    (tmp_path / OLD_SESSION / "logs" / "x.out").unlink()
    old.scan()
    metrics.tell_logs((OLD_SESSION, NODE), old)
    metrics.tell_logs((OLD_SESSION, NODE), old, over=True)
    metrics.tell_logs((SESSION, NODE), tails_of(tmp_path, SESSION, content=b"x"))
    assert value("log_gap_bytes") == 100
    assert value("logs_ended_total", reason="given_up") == 1
    assert value("logs_ended_total", reason="deleted") == 0
