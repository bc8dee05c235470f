"""Sessions whose files vanish, rot or were tampered with, and compiles that fail."""

from __future__ import annotations

import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from historyserver.compiled.meta import Meta
from historyserver.compiling.apart import compile_apart
from historyserver.compiling.processes import CompileTimeoutError, WorkerDiedError
from historyserver.metrics import ServerMetrics
from historyserver.reading.frames import SourceChangedError
from historyserver.reading.locate import locate
from historyserver.reading.source import SessionSource
from historyserver.sessions import BrokenReason, SessionBrokenError, Sessions, making, preparing
from storage.backend import UnavailableError, read_all
from storage.layout import compiled_prefix
from storage.local.backend import LocalBackend
from tests.historyserver.asking import Asker, refused
from tests.historyserver.counted import values
from tests.historyserver.hand_made import PREFIX, app_of, entry_of, stored_sessions
from tests.historyserver.sessions.stored_samples import REF, Clock, count

TASKS = f"{PREFIX}/api/v0/tasks"


def test_a_cache_folder_that_was_deleted_is_made_again(sessions: Sessions, tmp_path: Path) -> None:
    """A cleaner of temporary files must not end the service."""
    first = sessions.open(REF)
    shutil.rmtree(tmp_path / "cache")
    assert sessions.peek(REF) is None
    second = sessions.open(REF)
    assert second is not first
    assert second.compiled.path.exists()
    assert count(second) == 17


def _tampered(bucket: LocalBackend, statement: str, tmp_path: Path) -> None:
    """Change the stored compiled session by SQL."""
    (item,) = bucket.list(compiled_prefix(REF))
    key = getattr(item, "key", "")
    path = tmp_path / "tampered.sqlite"
    packed = read_all(bucket, key, max_bytes=1 << 26)
    path.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.execute("VACUUM")
    connection.close()
    bucket.put(key, zstandard.compress(path.read_bytes()))


@pytest.mark.parametrize(("name", "value"), [("cluster", "v162"), ("fingerprint", "00")])
def test_a_stored_file_of_another_session_is_not_used(
    sessions: Sessions, bucket: LocalBackend, tmp_path: Path, name: str, value: str
) -> None:
    """Whoever may write the compiled files must not pass one session off as another."""
    sessions.open(REF)
    sessions.close()
    change = f"UPDATE meta SET value = '\"{value}\"' WHERE key = '{name}'"
    _tampered(bucket, change, tmp_path)
    metrics = ServerMetrics()
    replica = stored_sessions(bucket, tmp_path / "other", watch=metrics)
    meta = replica.open(REF).compiled.meta
    assert (meta.cluster, count(replica.open(REF))) == ("v170", 17)
    replica.close()
    assert values(metrics, "compiled_fetched_total") == {"other_session": 1}


@pytest.mark.parametrize(
    "damage",
    ["DROP TABLE tasks", "ALTER TABLE tasks RENAME COLUMN state TO other"],
)
def test_a_file_that_fails_in_a_query_is_made_anew(
    sessions: Sessions, bucket: LocalBackend, tmp_path: Path, damage: str
) -> None:
    """The first reader is told to come back; then all is well, in storage too."""
    sessions.open(REF)
    sessions.close()
    _tampered(bucket, damage, tmp_path)
    for cache in ("other", "third"):
        replica = stored_sessions(bucket, tmp_path / cache)
        ask = Asker(app_of(bucket, entries=[entry_of(REF)], sessions=replica))
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

    def __call__(self, *args: object, workers: int, timeout_s: float | None) -> Meta:
        """As `compile_apart`."""
        self.number += 1
        if self.error is not None:
            raise self.error
        return compile_apart(*args, workers=workers, timeout_s=timeout_s)  # type: ignore[arg-type]


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
    monkeypatch.setattr(making, "compile_apart", failing)
    for attempts in (1, 2, 2, 2):
        with pytest.raises(SessionBrokenError) as caught:
            sessions.open(REF)
        assert caught.value.reason is reason
        assert failing.number == attempts
    failing.error = None
    clock.now_s = 61
    assert count(sessions.open(REF)) == 17


def _killed(*args: object, workers: int, timeout_s: float | None) -> Meta:
    """A compile whose process was killed."""
    del workers, timeout_s
    path = args[2]
    assert isinstance(path, Path)
    folder = path.with_name(f".{path.name}.x7")
    folder.mkdir()
    (folder / "part").write_bytes(b"x")
    path.with_name(path.name.replace(".unfinished", "7.unfinished")).write_bytes(b"x")
    raise WorkerDiedError("killed")


def test_what_a_killed_compile_left_is_removed(
    sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-made files and folders do not wait for somebody who opens the session again."""
    monkeypatch.setattr(making, "compile_apart", _killed)
    with pytest.raises(SessionBrokenError):
        sessions.open(REF)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["locks"]


def test_a_compile_that_takes_too_long_is_given_up(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is told which setting it is."""
    monkeypatch.setattr(making, "compile_apart", Failing(CompileTimeoutError("over 900 s")))
    with pytest.raises(SessionBrokenError, match=r"over 900 s.*--compile-timeout") as caught:
        sessions.open(REF)
    assert caught.value.reason is BrokenReason.COMPILE_TIMED_OUT


def test_a_session_that_changes_while_it_is_read_is_located_again(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live segment that went into a final object is no missing session."""
    failing = Failing(SourceChangedError("a segment is gone"))
    monkeypatch.setattr(making, "compile_apart", failing)
    with pytest.raises(SessionBrokenError) as caught:
        sessions.open(REF)
    assert caught.value.reason is BrokenReason.KEEPS_CHANGING
    assert failing.number == 3

    def heal(*args: object) -> SessionSource:
        if failing.number == 4:
            failing.error = None
        return locate(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(preparing, "locate", heal)
    assert count(sessions.open(REF)) == 17
    assert failing.number == 5


def test_a_renewal_that_fails_keeps_what_is_open(
    sessions: Sessions, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers of a running session do not lose it to a store that fails for a while."""
    monkeypatch.setattr(preparing, "locate", lambda *a: replace(locate(*a), state="running"))
    first = sessions.open(REF)
    clock.now_s = 11
    monkeypatch.setattr(preparing, "locate", Failing(UnavailableError("the bucket is away")))
    assert sessions.open(REF) is first
    assert sessions.peek(REF) is first


@pytest.mark.parametrize("harm", ["cut", "deleted"])
def test_a_file_that_is_cut_or_deleted_while_open_ends_no_process(
    sessions: Sessions, bucket: LocalBackend, harm: str
) -> None:
    """A mapped file would end it by SIGBUS. The reader is told to come back; then all is well."""
    path = sessions.open(REF).compiled.path
    ask = Asker(app_of(bucket, entries=[entry_of(REF)], sessions=sessions))
    assert ask.get(TASKS).status_code == 200
    if harm == "cut":
        os.truncate(path, 20_000)
        refused(ask.get(f"{TASKS}?limit=7&detail=1"), "session_preparing", status=503)
    else:
        path.unlink()
    assert ask.get(f"{TASKS}?limit=8&detail=1").get_json()["data"]["result"]["total"] == 13
