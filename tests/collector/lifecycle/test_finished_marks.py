"""The mark that says that a session on this disk is finished."""

from __future__ import annotations

import os
from pathlib import Path

from collector.lifecycle.finished_marks import (
    forget_finished,
    is_finished,
    remember_finished,
    was_finished,
)
from collector.ray_session import RaySession, last_activity_ms, session_of
from tests.collector.events import NODE, SESSION


def session_with_log(tmp_path: Path, *, changed_s: float) -> RaySession:
    session = session_of(tmp_path, SESSION, NODE)
    session.logs_dir.mkdir(parents=True, exist_ok=True)
    log = session.logs_dir / "raylet.out"
    log.touch()
    os.utime(log, (changed_s, changed_s))
    return session


def remember(tmp_path: Path, session: RaySession) -> None:
    pair = (session.session_name, session.node_id)
    remember_finished(tmp_path / "data", pair, activity_ms=last_activity_ms(session) or 0)


def test_a_log_of_a_time_to_come_is_finished_once(tmp_path: Path) -> None:
    """The clock was set back, or somebody touched the file: not shipped for ever again."""
    session = session_with_log(tmp_path, changed_s=4e9)
    assert not is_finished(tmp_path / "data", session)
    remember(tmp_path, session)
    assert is_finished(tmp_path / "data", session)


def test_a_log_that_grew_during_the_finishing_is_not_finished(tmp_path: Path) -> None:
    """Though that was before the mark was made."""
    session = session_with_log(tmp_path, changed_s=1_700_000_000)
    remember(tmp_path, session)
    assert is_finished(tmp_path / "data", session)
    session_with_log(tmp_path, changed_s=1_700_000_001)
    assert not is_finished(tmp_path / "data", session)


def test_a_session_without_logs_is_finished_until_forgotten(tmp_path: Path) -> None:
    """Only events came."""
    session = session_of(tmp_path, SESSION, NODE)
    pair = (SESSION, NODE)
    remember(tmp_path, session)
    assert is_finished(tmp_path / "data", session)
    assert was_finished(tmp_path / "data", pair)
    forget_finished(tmp_path / "data", pair)
    assert not was_finished(tmp_path / "data", pair)
