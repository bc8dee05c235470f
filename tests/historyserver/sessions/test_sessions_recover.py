"""Sessions whose files vanish, rot or were tampered with, and compiles that fail."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

import historyserver.sessions.sessions as module
from historyserver.compiled.meta import Meta
from historyserver.compiling.apart import compile_apart
from historyserver.compiling.processes import WorkerDiedError
from historyserver.sessions import BrokenReason, OpenSession, SessionBrokenError, Sessions
from storage.backend import read_all
from storage.layout import SessionRef, compiled_prefix
from storage.local.backend import LocalBackend
from tests.harness.compiled_samples import SESSIONS, kuberay_samples
from tests.historyserver.asking import Asker, refused
from tests.historyserver.hand_made import PREFIX, app_of, entry_of

REF = SessionRef("ml", "v170", SESSIONS["v170"])
TASKS = f"{PREFIX}/api/v0/tasks"


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    """A bucket with the sample sessions."""
    shutil.copytree(kuberay_samples() / "tree", tmp_path / "bucket")
    return LocalBackend(tmp_path / "bucket")


class Clock:
    """A clock that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """The clock of the sessions."""
    return Clock()


@pytest.fixture
def sessions(backend: LocalBackend, tmp_path: Path, clock: Clock) -> Iterator[Sessions]:
    """Sessions with an empty cache."""
    found = Sessions(backend, tmp_path / "cache", monotonic_s=clock)
    yield found
    found.close()


def count(session: OpenSession) -> int:
    """A query."""
    found: int = session.compiled.connection().execute("SELECT count(*) FROM tasks").fetchone()[0]
    return found


def test_a_cache_folder_that_was_deleted_is_made_again(sessions: Sessions, tmp_path: Path) -> None:
    """A cleaner of temporary files must not end the service."""
    first = sessions.open(REF)
    shutil.rmtree(tmp_path / "cache")
    assert sessions.peek(REF) is None
    second = sessions.open(REF)
    assert second is not first
    assert second.compiled.path.exists()
    assert count(second) == 17


def _tampered(backend: LocalBackend, statement: str, tmp_path: Path) -> None:
    """Change the stored compiled session by SQL."""
    (item,) = backend.list(compiled_prefix(REF))
    key = getattr(item, "key", "")
    path = tmp_path / "tampered.sqlite"
    packed = read_all(backend, key, max_bytes=1 << 26)
    path.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.execute("VACUUM")
    connection.close()
    backend.put(key, zstandard.compress(path.read_bytes()))


@pytest.mark.parametrize(("name", "value"), [("cluster", "v162"), ("fingerprint", "00")])
def test_a_stored_file_of_another_session_is_not_used(
    sessions: Sessions, backend: LocalBackend, tmp_path: Path, name: str, value: str
) -> None:
    """Whoever may write the compiled files must not pass one session off as another."""
    sessions.open(REF)
    sessions.close()
    change = f"UPDATE meta SET value = '\"{value}\"' WHERE key = '{name}'"
    _tampered(backend, change, tmp_path)
    replica = Sessions(backend, tmp_path / "other")
    meta = replica.open(REF).compiled.meta
    assert (meta.cluster, count(replica.open(REF))) == ("v170", 17)
    replica.close()


@pytest.mark.parametrize(
    "damage",
    ["DROP TABLE tasks", "ALTER TABLE tasks RENAME COLUMN state TO other"],
)
def test_a_file_that_fails_in_a_query_is_made_anew(
    sessions: Sessions, backend: LocalBackend, tmp_path: Path, damage: str
) -> None:
    """The first reader is told to come back; then all is well, in storage too."""
    sessions.open(REF)
    sessions.close()
    _tampered(backend, damage, tmp_path)
    for cache in ("other", "third"):
        replica = Sessions(backend, tmp_path / cache)
        ask = Asker(app_of(backend, entries=[entry_of(REF)], sessions=replica))
        if cache == "other":
            refused(ask.get(TASKS), "session_preparing", status=503)
        assert ask.get(TASKS).get_json()["data"]["result"]["total"] == 13
        replica.close()


def test_a_file_that_fails_again_at_once_is_not_made_for_ever(sessions: Sessions) -> None:
    """A fault of ours must not keep all processors busy."""
    assert sessions.discard(sessions.open(REF))
    assert not sessions.discard(sessions.open(REF))


class Failing:
    """Compiles that fail, counted."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.number = 0

    def __call__(self, *args: object, workers: int) -> Meta:
        """As `compile_apart`."""
        self.number += 1
        if self.error is not None:
            raise self.error
        return compile_apart(*args, workers=workers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (WorkerDiedError("ended early"), BrokenReason.COMPILE_DIED),
        (OverflowError("too large"), BrokenReason.COMPILE_FAILED),
        (sqlite3.OperationalError("database or disk is full"), BrokenReason.NO_SPACE),
    ],
)
def test_a_session_that_keeps_failing_rests(
    sessions: Sessions,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    reason: BrokenReason,
) -> None:
    """Tried again at once, then once a minute, and well again when the cause is gone."""
    failing = Failing(error)
    monkeypatch.setattr(module, "compile_apart", failing)
    for attempts in (1, 2, 2, 2):
        with pytest.raises(SessionBrokenError) as caught:
            sessions.open(REF)
        assert caught.value.reason is reason
        assert failing.number == attempts
    failing.error = None
    clock.now_s = 61
    assert count(sessions.open(REF)) == 17


def test_what_a_killed_compile_left_is_removed(
    sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-made files and folders of the same session go before it is made again."""
    left: list[Path] = []

    def killed(*args: object, workers: int) -> Meta:
        del workers
        path = args[2]
        assert isinstance(path, Path)
        folder = path.with_name(f".{path.name}.spill")
        folder.mkdir()
        (folder / "part").write_bytes(b"x")
        other = path.with_name(path.name.replace(".unfinished", "7.unfinished"))
        other.write_bytes(b"x")
        left.extend((folder, other))
        raise WorkerDiedError("killed")

    monkeypatch.setattr(module, "compile_apart", killed)
    with pytest.raises(SessionBrokenError):
        sessions.open(REF)
    assert all(path.exists() for path in left)
    monkeypatch.setattr(module, "compile_apart", compile_apart)
    sessions.open(REF)
    assert not any(path.exists() for path in left)
    assert len(list((tmp_path / "cache").iterdir())) == 2  # the session, and the locks
