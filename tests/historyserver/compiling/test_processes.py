"""A compile in several processes gives the same file as one in this process."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from historyserver.compiled.opener import open_compiled
from historyserver.compiling import compile as compiling
from historyserver.compiling import units
from historyserver.compiling.apart import compile_apart
from historyserver.compiling.compile import compile_session
from historyserver.compiling.crew import CrewError, ask, started
from historyserver.reading.locate import locate
from storage.backend import NotFoundError
from storage.local.backend import LocalBackend
from tests.bench.generator import write_session
from tests.harness.compiled_samples import (
    LATER_MS,
    compiled_records,
    compiled_tasks,
    kuberay_source,
)


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
    with started("historyserver.compiling.child") as connection, pytest.raises(AttributeError):
        ask(connection, "no_such_thing", ())
    with started("historyserver.compiling.child") as connection, pytest.raises(NotFoundError):
        ask(connection, "start", (_Failing(), tmp_path, 0, 1))


class _Failing:
    """Fails when it is unpickled in the child."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (_raise, ("gone",))


def _raise(message: str) -> None:
    raise NotFoundError(message)


def test_a_child_that_dies_is_told_apart() -> None:
    """As one that the kernel ended for want of memory."""
    with started("json.tool") as connection, pytest.raises(CrewError):
        ask(connection, "compile", ())
