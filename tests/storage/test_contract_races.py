"""Every backend: writers that race, and writers that are killed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from storage.backend import Backend, ExistsError, NotFoundError
from tests.storage.contract import Store


def test_of_racing_threads_exactly_one_creates(backend: Backend) -> None:
    """The winner's content is what is stored."""
    writers = 8
    for round_number in range(5):
        barrier = threading.Barrier(writers)

        def create(name: str, key: str, barrier: threading.Barrier = barrier) -> str | None:
            barrier.wait()
            try:
                backend.put(key, name.encode() * 1000, create_only=True)
            except ExistsError:
                return None
            return name

        key = f"race/{round_number}/k"
        with ThreadPoolExecutor(writers) as pool:
            results = list(pool.map(create, map(str, range(writers)), [key] * writers))
        winners = [name for name in results if name is not None]
        assert len(winners) == 1
        assert b"".join(backend.get(key)) == winners[0].encode() * 1000


def test_of_racing_processes_exactly_one_creates(store: Store) -> None:
    """The same between programs, which share nothing but the store."""
    processes = [store.process("create", "race/k") for _ in range(4)]
    outcomes = {}
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for number, process in enumerate(processes):
        assert process.stdin is not None
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
    for number, process in enumerate(processes):
        outcomes[number] = process.communicate(timeout=30)[0].strip()
    winners = [number for number, outcome in outcomes.items() if outcome == "won"]
    assert sorted(outcomes.values()) == ["exists", "exists", "exists", "won"]
    assert b"".join(store.open().get("race/k")) == str(winners[0]).encode()


def test_a_killed_writer_leaves_nothing_visible(store: Store) -> None:
    """kill -9 within a put: a new object is not there, an old one is as it was."""
    backend = store.open()
    backend.put("old/k", b"whole")
    for key in ("new/k", "old/k"):
        with store.process("hang", key) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.kill()
    with pytest.raises(NotFoundError):
        backend.head("new/k")
    assert b"".join(backend.get("old/k")) == b"whole"
    assert [item.key for item in backend.list("") if hasattr(item, "key")] == ["old/k"]


def test_readers_of_a_replaced_object_never_see_a_part(backend: Backend) -> None:
    """While a writer replaces it again and again, each read is one whole version."""
    size_bytes = 300_000
    backend.put("k", b"0" * size_bytes)
    stop = threading.Event()

    def replace() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            backend.put("k", str(number % 10).encode() * size_bytes)

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(replace)
        try:
            for _ in range(30):
                content = b"".join(backend.get("k"))
                assert len(content) == size_bytes
                assert len(set(content)) == 1
        finally:
            stop.set()
        writer.result()


def test_writers_and_deleters_share_folders(backend: Backend) -> None:
    """A folder that empties while another writer is about to use it costs that one nothing."""

    def churn(writer: int) -> None:
        for number in range(25):
            key = f"shared/folder/{writer}-{number}"
            backend.put(key, b"x")
            backend.delete(key)
        backend.put(f"shared/folder/{writer}-kept", b"x")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(churn, range(4)))
    kept = [item.key for item in backend.list("shared/") if hasattr(item, "key")]
    assert kept == [f"shared/folder/{writer}-kept" for writer in range(4)]
