"""Compiled files open from any thread, and broken ones are refused."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from historyserver.compiled import opener
from historyserver.compiled.meta import Meta, MetaError, meta_from_rows, meta_rows
from historyserver.compiled.opener import BrokenFileError, open_compiled
from tests.harness.compiled_samples import compile_kuberay_sample, compile_ray_samples


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A whole compiled file."""
    path = tmp_path / "session.sqlite"
    compile_kuberay_sample("v170", path).close()
    return path


def test_a_whole_file_opens_with_its_facts(path: Path) -> None:
    """Meta comes from the file; strings resolve both ways."""
    session = open_compiled(path)
    assert (session.meta.cluster, session.meta.counts["tasks"]) == ("v170", 17)
    number = session.string_id("square")
    assert number is not None
    assert session.string(number) == "square"
    assert (session.string_id("nobody"), session.string(None)) == (None, "")


def test_each_thread_has_its_own_connection(path: Path) -> None:
    """And all of them are closed together."""
    session = open_compiled(path)
    found: list[sqlite3.Connection] = []
    threads = [
        threading.Thread(target=lambda: found.append(session.connection())) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(connection) for connection in found}) == 3
    session.close()
    with pytest.raises(sqlite3.ProgrammingError):
        found[0].execute("SELECT 1")


def test_nothing_can_be_written(path: Path) -> None:
    """The file is opened read-only."""
    session = open_compiled(path)
    with pytest.raises(sqlite3.OperationalError):
        session.connection().execute("DELETE FROM tasks")


@pytest.mark.parametrize("keep", [0.0, 0.001, 0.5, 0.99])
def test_a_cut_file_is_refused(path: Path, keep: float) -> None:
    """At once, not in some later query."""
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(BrokenFileError):
        open_compiled(path)


def test_another_file_is_refused(tmp_path: Path) -> None:
    """Not SQLite, or no compiled session."""
    path = tmp_path / "other.sqlite"
    path.write_bytes(b"x" * 8192)
    with pytest.raises(BrokenFileError):
        open_compiled(path)
    with pytest.raises(FileNotFoundError):
        open_compiled(tmp_path / "missing.sqlite")


def test_another_schema_version_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old files are made anew, never read by guess."""
    monkeypatch.setattr(opener, "SCHEMA_VERSION", 10**6)
    with pytest.raises(BrokenFileError, match="schema"):
        open_compiled(path)


def test_a_half_written_file_never_has_the_final_name(tmp_path: Path) -> None:
    """Intermediate files go beside it and are removed."""
    path = tmp_path / "session.sqlite"
    session = compile_ray_samples(path)
    assert session.meta.counts["tasks"] == 9
    assert {item.name for item in tmp_path.iterdir()} == {path.name, f"{path.name}-bucket"}


def test_facts_survive_the_table() -> None:
    """Rows of the meta table give the same facts; other rows are refused."""
    meta = Meta(
        schema_version=1, fingerprint="f", namespace="n", cluster="c", session="s", counts={"a": 1}
    )
    assert meta_from_rows(meta_rows(meta)) == meta
    with pytest.raises(MetaError):
        meta_from_rows([("schema_version", "1")])
