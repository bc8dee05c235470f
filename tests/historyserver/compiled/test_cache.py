"""The local cache: shared, checked, bounded."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from historyserver.compiled.cache import CompiledCache, cache_key
from historyserver.compiled.opener import CompiledSession
from tests.harness.compiled_samples import compile_kuberay_sample


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled file to copy."""
    path = tmp_path_factory.mktemp("whole") / "session.sqlite"
    compile_kuberay_sample("v162", path).close()
    return path


def add(cache: CompiledCache, key: str, whole: Path) -> CompiledSession:
    """Put a copy into the cache."""
    with cache.making(key) as unfinished:
        shutil.copy(whole, unfinished)
        return cache.add(key, unfinished)


def files(folder: Path) -> list[Path]:
    """The cached files, least recently used first."""
    return sorted(folder.glob("*.sqlite"), key=lambda path: path.stat().st_mtime)


KEYS = [cache_key(f"ns/c/{number}", 1, "f") for number in range(3)]


def test_what_was_added_is_found_by_another_process(tmp_path: Path, whole: Path) -> None:
    """Another cache object on the same folder opens it; other keys are not there."""
    add(CompiledCache(tmp_path, max_bytes=10**9), KEYS[0], whole).close()
    other = CompiledCache(tmp_path, max_bytes=10**9)
    found = other.open(KEYS[0])
    assert found is not None
    assert found.meta.cluster == "v162"
    assert other.open(KEYS[1]) is None


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_file_counts_as_absent_and_goes(tmp_path: Path, whole: Path, damage: str) -> None:
    """Size and checksum in the name tell."""
    cache = CompiledCache(tmp_path, max_bytes=10**9)
    add(cache, KEYS[0], whole).close()
    (path,) = files(tmp_path)
    body = bytearray(path.read_bytes())
    if damage == "flip":
        body[len(body) // 2] ^= 1
    damaged = {"cut": bytes(body[:-4096]), "flip": bytes(body), "empty": b""}
    path.write_bytes(damaged[damage])
    assert cache.open(KEYS[0]) is None
    assert files(tmp_path) == []


def test_the_least_recently_used_file_goes_first(tmp_path: Path, whole: Path) -> None:
    """When a third file does not fit."""
    cache = CompiledCache(tmp_path, max_bytes=int(whole.stat().st_size * 2.5))
    for number, key in enumerate(KEYS[:2]):
        add(cache, key, whole).close()
        (path,) = tmp_path.glob(f"{key}.*")
        os.utime(path, (number + 1, number + 1))
    add(cache, KEYS[2], whole).close()
    assert [path.name.partition(".")[0] for path in files(tmp_path)] == [KEYS[1], KEYS[2]]


def test_a_file_in_use_is_not_removed(tmp_path: Path, whole: Path) -> None:
    """Not even when nothing fits; it goes when it has been closed."""
    cache = CompiledCache(tmp_path, max_bytes=1)
    first = add(cache, KEYS[0], whole)
    add(cache, KEYS[1], whole).close()
    assert {path.name.partition(".")[0] for path in files(tmp_path)} >= {KEYS[0]}
    assert first.connection().execute("SELECT count(*) FROM tasks").fetchone() == (15,)
    first.close()
    assert cache.evict() >= 1
    assert files(tmp_path) == []


def test_one_at_a_time_makes_a_file(tmp_path: Path) -> None:
    """Two threads that want the same key take turns."""
    inside: list[int] = []
    most: list[int] = []

    def make() -> None:
        with CompiledCache(tmp_path, max_bytes=1).making(KEYS[0]):
            inside.append(1)
            most.append(len(inside))
            threading.Event().wait(0.02)
            inside.pop()

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]


def test_slots_bound_how_many_work_at_once(tmp_path: Path) -> None:
    """Over all processes that share the folder."""
    cache = CompiledCache(tmp_path, max_bytes=1)
    running: list[int] = []
    most: list[int] = []

    def work() -> None:
        with cache.slot(2):
            running.append(1)
            most.append(len(running))
            threading.Event().wait(0.05)
            running.pop()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 5
    assert max(most) <= 2


def test_an_unfinished_file_is_never_seen(tmp_path: Path, whole: Path) -> None:
    """It has no name that is looked for, and goes when its maker fails."""
    cache = CompiledCache(tmp_path, max_bytes=10**9)

    def fail() -> None:
        with cache.making(KEYS[0]) as unfinished:
            shutil.copy(whole, unfinished)
            assert cache.open(KEYS[0]) is None
            raise RuntimeError("died")

    with pytest.raises(RuntimeError, match="died"):
        fail()
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []


def test_only_what_nobody_makes_any_more_is_swept(tmp_path: Path) -> None:
    """A maker that was killed holds no lock; one that works does, and keeps its files."""
    cache = CompiledCache(tmp_path, max_bytes=10**9)
    left = tmp_path / f".{KEYS[0]}.12.unfinished"
    folder = tmp_path / f".{left.name}.x7"
    left.write_bytes(b"x")
    folder.mkdir()
    (folder / "part").write_bytes(b"x")
    with cache.making(KEYS[1]) as unfinished:
        unfinished.write_bytes(b"x")
        assert CompiledCache(tmp_path, max_bytes=10**9).sweep() == 1
        assert not left.exists()
        assert not folder.exists()
        assert unfinished.exists()
    assert not unfinished.exists()
    assert cache.sweep() == 0
