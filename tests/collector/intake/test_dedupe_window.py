"""The window of event ids."""

from __future__ import annotations

from pathlib import Path

from collector.intake.dedupe import DIGEST_BYTES, Window, digest


def ids(start: int, count: int) -> list[bytes]:
    return [digest(f"event-{number}") for number in range(start, start + count)]


def test_the_last_ids_are_always_known() -> None:
    """However many came before, the last `capacity` ids are remembered."""
    window = Window(capacity=10)
    for number in range(100):
        window.add_all(ids(number, 1))
        assert all(known in window for known in ids(max(0, number - 9), min(number + 1, 10)))


def test_memory_is_bounded() -> None:
    """Never more than twice the capacity."""
    window = Window(capacity=10)
    for start in range(0, 1000, 7):
        window.add_all(ids(start, 7))
        assert len(window) <= 20
    assert ids(0, 1)[0] not in window


def test_a_saved_window_is_known_again(tmp_path: Path) -> None:
    """Saved and loaded, also with a torn end."""
    window = Window(capacity=100)
    window.add_all(ids(0, 50))
    window.save(tmp_path / "ids")
    restored = Window(capacity=100)
    restored.load(tmp_path / "ids")
    assert all(known in restored for known in ids(0, 50))
    data = (tmp_path / "ids").read_bytes()
    (tmp_path / "ids").write_bytes(data[: DIGEST_BYTES * 3 + 5])
    torn = Window(capacity=100)
    torn.load(tmp_path / "ids")
    assert len(torn) == 3


def test_a_missing_file_gives_an_empty_window(tmp_path: Path) -> None:
    """The first start of all."""
    window = Window()
    window.load(tmp_path / "none")
    assert len(window) == 0
