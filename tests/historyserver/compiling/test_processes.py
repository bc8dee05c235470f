"""A compile in several processes gives the same file as one in this process."""

from __future__ import annotations

import os
import pickle
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from historyserver.compiled.opener import open_compiled
from historyserver.compiling import compile as compiling
from historyserver.compiling import units
from historyserver.compiling.apart import compile_apart
from historyserver.compiling.compile import compile_session
from historyserver.compiling.processes import (
    CHILD,
    CompileTimeoutError,
    WorkerDiedError,
    ask,
    started,
)
from historyserver.reading.locate import locate
from historyserver.reading.source import SessionSource
from storage.backend import NotFoundError
from storage.local.backend import LocalBackend
from tests.bench.generator import write_session
from tests.harness.compiled_samples import (
    LATER_MS,
    compiled_records,
    compiled_tasks,
    kuberay_source,
)

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize("layout", ["kuberay", "ours"])
def test_processes_and_partitions_change_nothing(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, their order, records and summaries are the same."""
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    backend = LocalBackend(bucket)
    source = locate(backend, write_session(bucket, 300, layout=layout), now_ms=LATER_MS * 2)
    alone = compile_session(backend, source, tmp_path / "alone", workers=1)
    monkeypatch.setattr(compiling, "SMALL_BYTES", 0)
    monkeypatch.setattr(compiling, "ATTEMPTS_PER_PARTITION", 50)
    monkeypatch.setattr(units, "UNIT_BYTES", 64 * 1024)
    crowd = compile_session(backend, source, tmp_path / "crowd", workers=3)
    one, many = open_compiled(tmp_path / "alone"), open_compiled(tmp_path / "crowd")
    assert compiled_tasks(one) == compiled_tasks(many)
    assert compiled_records(one) == compiled_records(many)
    assert alone.counts == crowd.counts
    for table in ("task_counts", "rendered", "log_files"):
        select = f"SELECT * FROM {table} ORDER BY 1, 2"
        assert _texts(one.connection(), table, select) == _texts(many.connection(), table, select)


def _texts(connection: sqlite3.Connection, table: str, select: str) -> object:
    rows = connection.execute(select).fetchall()
    if table != "task_counts":
        return rows
    texts = dict(connection.execute("SELECT id, value FROM strings"))
    return sorted((*(texts.get(value) for value in row[:4]), row[4]) for row in rows)


def test_a_process_of_its_own_gives_the_facts(tmp_path: Path) -> None:
    """What the server uses, so that its memory stays small."""
    backend, source = kuberay_source("v162")
    meta = compile_apart(backend, source, tmp_path / "out", workers=2)
    assert meta.counts["tasks"] == 15
    assert open_compiled(tmp_path / "out").meta == meta


def test_errors_come_back_as_what_they_are(tmp_path: Path) -> None:
    """A storage error in the child is the same error here."""
    with started(CHILD) as connection, pytest.raises(AttributeError):
        ask(connection, "no_such_thing", ())
    with started(CHILD) as connection, pytest.raises(NotFoundError):
        ask(connection, "start", (_Failing(), tmp_path, 0, 1))


class _Failing:
    """Fails when it is unpickled in the child."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (_raise, ("gone",))


def _raise(message: str) -> None:
    raise NotFoundError(message)


def test_a_child_that_dies_is_told_apart() -> None:
    """As one that the kernel ended for want of memory."""
    with started("json.tool") as connection, pytest.raises(WorkerDiedError):
        ask(connection, "compile", ())


class _Slow(LocalBackend):
    """A store that a compile waits for, for ever; it tells which process asked."""

    def get(self, key: str) -> Iterator[bytes]:
        """Tell and hang."""
        (self._told / f"{os.getpid()}.asked").touch()
        while True:
            time.sleep(60)

    @property
    def _told(self) -> Path:
        return Path(os.environ["TOLD"])


def _slow_session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[_Slow, SessionSource]:
    bucket = folder / "bucket"
    bucket.mkdir()
    (folder / "told").mkdir()
    monkeypatch.setenv("TOLD", str(folder / "told"))
    ref = write_session(bucket, 300, layout="kuberay")
    return _Slow(bucket), locate(LocalBackend(bucket), ref, now_ms=LATER_MS * 2)


def _asked_by(folder: Path, number: int) -> list[int]:
    """The processes that read events, when there are so many."""
    deadline_s = time.monotonic() + 60
    while len(found := list((folder / "told").iterdir())) < number:
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    return [int(path.stem) for path in found]


def _children() -> set[str]:
    """The processes that this one started, and that are not ended."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        found |= set((task / "children").read_text().split())
    return found


def _runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _end_soon(pids: list[int]) -> bool:
    deadline_s = time.monotonic() + 30
    while any(map(_runs, pids)) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return not any(map(_runs, pids))


def test_a_compile_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes too, though they hang in a read."""
    backend, source = _slow_session(tmp_path, monkeypatch)
    before = _children()
    with pytest.raises(CompileTimeoutError):
        compile_apart(backend, source, tmp_path / "out", workers=2, timeout_s=1)
    assert _children() == before
    assert not (tmp_path / "out").exists()


_PARENT = """
import pickle
import sys
from pathlib import Path
from historyserver.compiling.apart import compile_apart
with open(sys.argv[1], "rb") as file:
    backend, source = pickle.load(file)
compile_apart(backend, source, Path(sys.argv[2]), workers=1)
"""


def test_the_processes_of_a_compile_end_when_the_server_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, though they hang in a read and nobody can tell them: they lose their lifeline."""
    task = tmp_path / "task"
    task.write_bytes(pickle.dumps(_slow_session(tmp_path, monkeypatch)))
    server = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(task), str(tmp_path / "out")], cwd=REPOSITORY
    )
    try:
        children = _asked_by(tmp_path, 1)
        assert server.poll() is None
        assert all(map(_runs, children))
    finally:
        server.kill()
        server.wait(20)
    assert _end_soon(children)
