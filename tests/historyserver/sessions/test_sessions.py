"""Sessions open once for all: memory, local cache, storage, compile."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from historyserver.compiled.meta import Meta
from historyserver.compiling.apart import compile_apart
from historyserver.compiling.processes import WorkerDiedError
from historyserver.metrics import ServerMetrics
from historyserver.reading.locate import locate
from historyserver.reading.source import SessionSource
from historyserver.sessions import (
    BrokenReason,
    SessionBrokenError,
    SessionNotFoundError,
    Sessions,
    making,
    preparing,
    sharing,
)
from storage.backend import Backend, DeniedError
from storage.layout import SessionRef, compiled_prefix, event_key
from storage.local.backend import LocalBackend
from tests.historyserver.counted import values
from tests.historyserver.hand_made import stored_sessions
from tests.historyserver.sessions.stored_samples import REF, Clock, count


class Compiles:
    """Counts compiles, and can make them fail."""

    def __init__(self) -> None:
        self.number = 0
        self.error: Exception | None = None

    def __call__(
        self,
        backend: Backend,
        source: SessionSource,
        path: Path,
        *,
        workers: int,
        timeout_s: float | None,
    ) -> Meta:
        """As `compile_apart`."""
        self.number += 1
        if self.error is not None:
            raise self.error
        return compile_apart(backend, source, path, workers=workers, timeout_s=timeout_s)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> Compiles:
    """Watches what is compiled."""
    found = Compiles()
    monkeypatch.setattr(making, "compile_apart", found)
    return found


def stored(bucket: LocalBackend) -> list[str]:
    """The compiled sessions in storage."""
    return [getattr(item, "key", "") for item in bucket.list(compiled_prefix(REF))]


def test_a_session_is_compiled_once_and_then_kept(sessions: Sessions, compiles: Compiles) -> None:
    """The second time it comes from memory; `peek` never waits."""
    assert sessions.peek(REF) is None
    first = sessions.open(REF)
    assert count(first) == 17
    assert sessions.open(REF) is first
    assert sessions.peek(REF) is first
    assert compiles.number == 1


def test_threads_share_one_compile(sessions: Sessions, compiles: Compiles) -> None:
    """Eight requests at once make it once."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: count(sessions.open(REF)), range(8)))
    assert found == [17] * 8
    assert compiles.number == 1


def test_processes_share_one_compile(bucket: LocalBackend, tmp_path: Path) -> None:
    """Two servers on one machine: the second one finds the first one's file."""
    script = """
import sys
from pathlib import Path
from storage.layout import SessionRef
from storage.local.backend import LocalBackend
from tests.historyserver.hand_made import stored_sessions
backend = LocalBackend(Path(sys.argv[1]))
sessions = stored_sessions(backend, Path(sys.argv[2]))
meta = sessions.open(SessionRef("ml", "v170", sys.argv[3])).compiled.meta
print(meta.compiled_ms)
sessions.close()
"""
    command = [sys.executable, "-c", script, str(tmp_path / "bucket"), str(tmp_path / "cache"), REF.session]  # fmt: skip
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    made = {process.communicate(timeout=60)[0] for process in running}
    assert len(made) == 1
    assert made != {""}


def test_another_replica_fetches_what_was_stored(
    sessions: Sessions, bucket: LocalBackend, compiles: Compiles, tmp_path: Path
) -> None:
    """Stored back once; a replica with an empty cache does not compile."""
    sessions.open(REF)
    sessions.close()
    assert len(stored(bucket)) == 1
    replica = stored_sessions(bucket, tmp_path / "other")
    assert count(replica.open(REF)) == 17
    replica.close()
    assert compiles.number == 1


def test_a_restarted_server_uses_its_local_cache(
    sessions: Sessions, bucket: LocalBackend, compiles: Compiles, tmp_path: Path
) -> None:
    """Even when storage lost the compiled file."""
    sessions.open(REF)
    sessions.close()
    for key in stored(bucket):
        bucket.delete(key)
    again = stored_sessions(bucket, tmp_path / "cache")
    assert count(again.open(REF)) == 17
    again.close()
    assert compiles.number == 1


@pytest.mark.parametrize("damage", ["cut", "garbage", "not a session"])
def test_a_damaged_stored_file_is_made_anew_and_replaced(
    sessions: Sessions, bucket: LocalBackend, compiles: Compiles, tmp_path: Path, damage: str
) -> None:
    """zstd's checksum and the opener tell; the next replica fetches a good one; all is counted."""
    metrics = ServerMetrics()
    sessions.open(REF)
    sessions.close()
    (key,) = stored(bucket)
    body = b"".join(bucket.get(key))
    other = zstandard.compress(b"hello" * 1000)
    bucket.put(
        key, {"cut": body[: len(body) // 2], "garbage": b"x" * 100, "not a session": other}[damage]
    )
    replica = stored_sessions(bucket, tmp_path / "other", watch=metrics)
    assert count(replica.open(REF)) == 17
    replica.close()
    assert compiles.number == 2
    third = stored_sessions(bucket, tmp_path / "third", watch=metrics)
    assert count(third.open(REF)) == 17
    third.close()
    assert compiles.number == 2
    why = "unusable" if damage == "not a session" else "damaged"
    assert values(metrics, "compiled_fetched_total") == {why: 1, "used": 1}
    assert values(metrics, "compiled_stored_total") == {"stored": 1}


def test_a_damaged_local_file_is_fetched_again(
    sessions: Sessions, bucket: LocalBackend, tmp_path: Path
) -> None:
    """A flipped bit on the local disk is noticed before any query."""
    sessions.open(REF)
    sessions.close()
    (path,) = (tmp_path / "cache").glob("*.sqlite")
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 0x10
    path.write_bytes(body)
    again = stored_sessions(bucket, tmp_path / "cache")
    assert count(again.open(REF)) == 17
    again.close()


def test_an_unknown_session_is_not_found(sessions: Sessions, compiles: Compiles) -> None:
    """A typed error, and nothing is compiled."""
    with pytest.raises(SessionNotFoundError):
        sessions.open(SessionRef("ml", "nobody", REF.session))
    assert compiles.number == 0


def test_a_compile_that_dies_is_an_error_with_a_reason(
    sessions: Sessions, compiles: Compiles
) -> None:
    """And the next attempt may work."""
    compiles.error = WorkerDiedError("ended early")
    with pytest.raises(SessionBrokenError) as caught:
        sessions.open(REF)
    assert caught.value.reason is BrokenReason.COMPILE_DIED
    compiles.error = None
    assert count(sessions.open(REF)) == 17


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (DeniedError("read-only"), "storage_failed"),
        (FileNotFoundError("evicted"), "file_failed"),
        (ZeroDivisionError(), "failed"),
    ],
)
def test_a_file_that_cannot_be_stored_is_counted_and_serves(
    bucket: LocalBackend,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    outcome: str,
) -> None:
    """The session opens all the same, and the log says why others compile it again."""

    def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(sharing, "store", failing)
    metrics = ServerMetrics()
    sessions = stored_sessions(bucket, tmp_path / "cache", watch=metrics)
    assert count(sessions.open(REF)) == 17
    sessions.close()
    assert stored(bucket) == []
    assert values(metrics, "compiled_stored_total") == {outcome: 1}
    assert values(metrics, "compiled_fetched_total") == {"absent": 1}
    assert "stored" in caplog.text


def _running(source: SessionSource) -> SessionSource:
    return replace(source, state="running")


def test_a_running_session_is_renewed_when_it_changed(
    sessions: Sessions,
    bucket: LocalBackend,
    compiles: Compiles,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At most every ten seconds; readers keep what is open meanwhile; nothing is stored."""
    monkeypatch.setattr(preparing, "locate", lambda *args: _running(locate(*args)))
    first = sessions.open(REF)
    node = "24f17727caa70f5f337c6577c934be477927e238a13410c79dd84a73"
    key = event_key(REF, node, ("job_events", "03000000"), 1_796_075_250 * 10**9, gzip=False)
    bucket.put(key, b"{}\n")
    clock.now_s = 9
    assert sessions.open(REF) is first
    clock.now_s = 11
    assert sessions.peek(REF) is first
    renewed = threading.Event()
    for _ in range(200):
        if sessions.peek(REF) is not first:
            break
        renewed.wait(0.05)
    second = sessions.open(REF)
    assert second.etag_base != first.etag_base
    assert second.compiled.meta.skipped == {"not_an_event": 1}
    assert count(first) == count(second) == 17
    clock.now_s = 30
    assert sessions.open(REF).compiled is second.compiled  # nothing new: no compile
    assert compiles.number == 2
    sessions.close()
    assert stored(bucket) == []
