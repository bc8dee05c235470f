"""Logs are joined from final objects and live frames, and read by ranges."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from historyserver.reading.damage import DamageLog
from historyserver.reading.frames import SourceChangedError
from historyserver.reading.listing import merged_parts
from historyserver.reading.logs import covered, read_log
from historyserver.reading.source import LogPart
from storage.faults import FaultyBackend, Verb
from storage.local import LocalBackend

TEXT = bytes(range(256)) * 4


def put_parts(store: LocalBackend, ranges: list[tuple[int, int, str]]) -> list[LogPart]:
    """Store ranges of TEXT, each as a plain object or as a frame in a segment."""
    parts = []
    for number, (start, length, framing) in enumerate(ranges):
        body = TEXT[start : start + length]
        key = f"{number:03d}"
        if framing == "plain":
            store.put(key, body)
            parts.append(LogPart(key, start, len(body)))
        else:
            packed = zstandard.compress(body)
            store.put(key, b"other" + packed + b"more")
            parts.append(LogPart(key, start, len(body), "zstd", 5, len(packed)))
    return parts


@settings(deadline=None, max_examples=40)
@given(
    ranges=st.lists(
        st.tuples(
            st.integers(0, 1000), st.integers(1, 400), st.sampled_from(["plain", "zstd", "zstd"])
        ),
        max_size=8,
    ),
    start=st.integers(0, 1100),
    length=st.integers(0, 1100),
)
def test_any_parts_give_each_stored_byte_once(
    tmp_path_factory: pytest.TempPathFactory,
    ranges: list[tuple[int, int, str]],
    start: int,
    length: int,
) -> None:
    """Overlaps are read once, gaps yield nothing, and any range can be asked for."""
    store = LocalBackend(tmp_path_factory.mktemp("log"))
    parts = merged_parts(put_parts(store, ranges))
    ends = [(part.log_start, part.log_start + part.log_length) for part in parts]
    assert all(a[1] <= b[0] for a, b in pairwise(ends))
    stored = {n for s, size, _ in ranges for n in range(s, min(s + size, len(TEXT)))}
    wanted = sorted(n for n in stored if start <= n < start + length)
    assert b"".join(read_log(store, parts, start, start + length)) == bytes(TEXT[n] for n in wanted)
    told = [n for a, b in covered(parts, start, start + length) for n in range(a, b)]
    assert told == wanted


def test_only_the_parts_that_are_needed_are_read(store: LocalBackend) -> None:
    """The tail of a large log costs its last part."""
    parts = put_parts(store, [(0, 500, "plain"), (500, 100, "zstd"), (600, 400, "zstd")])
    counting = FaultyBackend(store)
    assert b"".join(read_log(counting, parts, 990)) == TEXT[990:1000]
    assert counting.calls == [(Verb.GET_RANGE, "002")]


def test_a_large_log_is_read_in_bounded_memory(store: LocalBackend) -> None:
    """Whatever the size of the object, and no more than the range asked for."""
    store.put("big", (b"x" * 1_000_000 for _ in range(64)))
    parts = [LogPart("big", 0, 64_000_000)]
    tracemalloc.start()
    size_bytes = sum(len(chunk) for chunk in read_log(store, parts, 1000))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size_bytes == 64_000_000 - 1000
    assert peak_bytes < 2_000_000


def test_a_corrupt_frame_is_a_gap_that_is_counted(store: LocalBackend, damage: DamageLog) -> None:
    """What is around it is kept."""
    parts = put_parts(store, [(0, 100, "zstd"), (100, 100, "zstd"), (200, 100, "zstd")])
    store.put("001", bytes(len(b"".join(store.get("001")))))
    assert b"".join(read_log(store, parts, damage=damage)) == TEXT[:100] + TEXT[200:300]
    assert damage.counts() == {"corrupt_frame": 1}


@pytest.mark.parametrize("framing", ["plain", "zstd"])
def test_a_part_that_is_gone_asks_to_locate_again(store: LocalBackend, framing: str) -> None:
    """A live segment is deleted once the final object is there."""
    parts = put_parts(store, [(0, 100, framing)])
    store.delete("000")
    with pytest.raises(SourceChangedError):
        list(read_log(store, parts))
