"""The last lines of a log, found by ranges from its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyserver.api.log_reading import ReadRange, all_of, last_lines, without_ansi


class Log:
    """Bytes that are read by range, with a count of how many were."""

    def __init__(self, data: bytes, chunk_bytes: int = 7) -> None:
        self.data = data
        self.chunk_bytes = chunk_bytes
        self.read_bytes = 0

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """As `reading.logs.read_log`."""
        for at in range(start, min(end, len(self.data)), self.chunk_bytes):
            chunk = self.data[at : min(at + self.chunk_bytes, end)]
            self.read_bytes += len(chunk)
            yield chunk


def tail(data: bytes, lines: int, *, start: int = 0, chunk_bytes: int = 7) -> bytes:
    """The last lines of the data from `start` on."""
    log = Log(data, chunk_bytes)
    return b"".join(last_lines(log.read, start, len(data), lines=lines))


def plainly(data: bytes, lines: int) -> bytes:
    """The same by splitting it all."""
    return b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"a", b"a\n", b"a\nb", b"a\nb\n", b"\n\n\n", b"a\n\nb\n"]
)
@pytest.mark.parametrize("lines", [1, 2, 3, 100])
def test_small_logs_are_cut_at_lines(data: bytes, lines: int) -> None:
    """With and without a newline at the end."""
    assert tail(data, lines) == _expected(data, lines)


def _expected(data: bytes, lines: int) -> bytes:
    parts = data.split(b"\n")
    whole = [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
    return b"".join(whole[-lines:])


@given(st.binary(max_size=400), st.integers(1, 60), st.integers(1, 50))
def test_any_bytes_give_the_same_as_splitting_all(data: bytes, lines: int, chunk: int) -> None:
    """Binary data too: only newlines count."""
    assert tail(data, lines, chunk_bytes=chunk) == _expected(data, lines)


def test_a_tail_of_many_blocks_is_whole() -> None:
    """Longer than what is kept from the search, so it is read a second time."""
    data = b"".join(b"%d %s\n" % (n, b"x" * (n % 997)) for n in range(20_000))
    assert tail(data, 15_000, chunk_bytes=64 * 1024) == plainly(data, 15_000)
    assert tail(data, 3, chunk_bytes=64 * 1024) == plainly(data, 3)


def test_the_tail_of_a_huge_log_reads_only_its_end() -> None:
    """Bytes read depend on the lines wanted, not on the log."""
    line = b"x" * 99 + b"\n"

    class Endless(Log):
        def read(self, start: int, end: int) -> Iterator[bytes]:
            for at in range(start, end, 65536):
                size = min(65536, end - at)
                self.read_bytes += size
                skip = at % 100
                yield (line * (size // 100 + 2))[skip : skip + size]

    log = Endless(b"")
    size_bytes = 1 << 30
    size_bytes -= size_bytes % 100
    out = b"".join(last_lines(log.read, 0, size_bytes, lines=1000))
    assert out == line * 1000
    assert log.read_bytes < 1_000_000


def test_one_line_of_ten_megabytes_comes_whole() -> None:
    """No limit on a line's length."""
    data = b"first\n" + b"y" * 10_000_000 + b"\nlast\n"
    assert tail(data, 2, chunk_bytes=1 << 18) == data[6:]


def test_a_range_is_never_left() -> None:
    """The lines before a task's first byte are another task's."""
    data = b"other\nmine 1\nmine 2\n"
    assert tail(data, 100, start=6) == b"mine 1\nmine 2\n"
    assert b"".join(all_of(Log(data).read, 6, 12)) == b"mine 1"
    assert b"".join(all_of(Log(data).read, 6, 6)) == b""


def test_a_gap_in_the_log_is_passed_over() -> None:
    """Ranges that were never stored yield nothing; the lines around them do."""
    data = b"one\ntwo\nthree\n"

    def read(start: int, end: int) -> Iterator[bytes]:
        for at in range(start, end):
            if not 4 <= at < 8:
                yield data[at : at + 1]

    gapped: ReadRange = read
    assert b"".join(last_lines(gapped, 0, len(data), lines=2)) == b"one\nthree\n"


@given(
    st.lists(st.sampled_from([b"\x1b", b"[", b"3", b"1", b";", b"m", b"x", b"\n"]), max_size=40),
    st.integers(1, 9),
)
def test_colours_go_however_the_chunks_are_cut(pieces: list[bytes], chunk_bytes: int) -> None:
    """A sequence may begin in one chunk and end in the next."""
    data = b"".join(pieces)
    chunks = [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)]
    assert b"".join(without_ansi(chunks)) == b"".join(without_ansi([data]))


def test_colours_go_and_the_text_stays() -> None:
    """As the UI asks with `filter_ansi_code=true`."""
    assert b"".join(without_ansi([b"\x1b[1m\x1b[3", b"2mok\x1b[0m\n"])) == b"ok\n"
    assert b"".join(without_ansi([b"end \x1b["])) == b"end \x1b["
