"""The marks on this disk that say which sessions are finished."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from collector.ray_session import RaySession, last_activity_ms

NodePair = tuple[str, str]
"""Session name and node id."""


def _finished_path(data_dir: Path, pair: NodePair) -> Path:
    return data_dir / pair[0] / f"finished-{pair[1]}"


def remember_finished(data_dir: Path, pair: NodePair, *, activity_ms: int) -> None:
    """Note on disk that nothing of this (session, node) is left to ship.

    Args:
        data_dir: where.
        pair: which.
        activity_ms: when a log had last changed as the finishing began, by the file's own time:
            a later change was maybe not shipped, and a clock that was set back fools nobody.

    """
    path = _finished_path(data_dir, pair)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, ns=(activity_ms * 1_000_000, activity_ms * 1_000_000))


def forget_finished(data_dir: Path, pair: NodePair) -> None:
    """There is something to ship again: the raylet is back, or a late event came."""
    with contextlib.suppress(OSError):
        _finished_path(data_dir, pair).unlink(missing_ok=True)


def was_finished(data_dir: Path, pair: NodePair) -> bool:
    """Whether an earlier `remember_finished` stands."""
    return _finished_path(data_dir, pair).exists()


def is_finished(data_dir: Path, session: RaySession) -> bool:
    """Whether it was finished, and no log has changed since."""
    pair = (session.session_name, session.node_id)
    try:
        finished_ms = _finished_path(data_dir, pair).stat().st_mtime_ns // 1_000_000
    except OSError:
        return False
    return finished_ms >= (last_activity_ms(session) or 0)
