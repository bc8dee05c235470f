"""Ray gives up its start on a busy machine; the demo tries again and then says so."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from demo import session
from demo.collector import Cluster
from demo.data_dir import DataDir, prepare
from demo.progress import DemoError, Progress

CLUSTER = Cluster(name="demo")
GAVE_UP = DemoError("Ray ended just after its start; the end of ray.log:\nits last line")


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What each attempt found in Ray's folder; each leaves a session there and fails."""
    found: list[list[str]] = []

    def fail(data: DataDir, cluster: Cluster) -> session.Started:
        del cluster
        found.append([entry.name for entry in data.ray.iterdir()])
        (data.ray / "session_failed").mkdir()
        raise GAVE_UP

    monkeypatch.setattr(session, "_start_once", fail)
    return found


def test_last_failure_has_its_log_and_the_likely_reason(
    tmp_path: Path, attempts: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each try finds an empty folder and is told in a line; the error shows why."""
    with prepare(tmp_path / "data") as data, pytest.raises(DemoError) as raised:
        session.start(data, CLUSTER, Progress())
    assert attempts == [[]] * session.STARTS
    again = "Ray did not start (Ray ended just after its start); trying again"
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("] ")[2] for line in lines] == [again] * (session.STARTS - 1)
    assert str(raised.value) == f"{GAVE_UP}\n{session.BUSY}"


def test_second_try_may_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One failure is no failure of the demo."""
    started = Mock(spec=session.Started)
    monkeypatch.setattr(session, "_start_once", Mock(side_effect=[GAVE_UP, started]))
    with prepare(tmp_path / "data") as data:
        assert session.start(data, CLUSTER, Progress()) is started
