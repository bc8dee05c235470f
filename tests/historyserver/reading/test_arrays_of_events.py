"""A JSON array of any size becomes JSON lines, in bounded memory, broken elements left out."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from historyserver.reading.arrays import array_blocks
from historyserver.reading.damage import DamageLog

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["event", 'a"}],[{"eventId":', "x\\", "é"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
EVENTS = [
    {
        "eventId": f"id{n}",
        "message": '"},{"eventId' if n % 5 == 0 else "\\",
        "taskLifecycleEvent": {"stateTransitions": [{"state": "RUNNING"}, {"state": "FINISHED"}]},
    }
    for n in range(300)
]


def lines_of(
    text: bytes, *, cuts: list[int], damage: DamageLog, block_bytes: int = 512
) -> list[Any]:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    chunks = [text[a:b] for a, b in pairwise(edges)]
    out: list[Any] = []
    for block in array_blocks(chunks, key="k", damage=damage, block_bytes=block_bytes):
        assert block.endswith(b"\n")
        out += [json.loads(line) for line in block.splitlines()]
    return out


@settings(deadline=None, max_examples=100)
@given(
    values=st.lists(JSON, max_size=12),
    indent=st.sampled_from([None, 1]),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    block_bytes=st.integers(1, 200),
    as_ascii=st.booleans(),
)
def test_any_array_in_any_cut_gives_its_elements(
    values: list[Any], indent: int | None, cuts: list[int], block_bytes: int, as_ascii: bool
) -> None:
    """Strings with brackets, escapes and line breaks, nested values, pretty-printed or not."""
    damage = DamageLog()
    text = json.dumps(values, indent=indent, ensure_ascii=as_ascii).encode()
    assert lines_of(text, cuts=cuts, damage=damage, block_bytes=block_bytes) == values
    assert not damage.items


@settings(deadline=None, max_examples=100)
@given(cuts=st.lists(st.integers(0, 60_000), max_size=10), block_bytes=st.integers(1, 20_000))
def test_events_in_any_cut_give_the_same_lines(cuts: list[int], block_bytes: int) -> None:
    """The fast way (cut where an event begins) and the scanner agree."""
    damage = DamageLog()
    text = json.dumps(EVENTS, separators=(",", ":")).encode()
    assert lines_of(text, cuts=cuts, damage=damage, block_bytes=block_bytes) == EVENTS
    assert not damage.items


def test_truncation_at_any_byte_keeps_the_whole_elements() -> None:
    """Every element before the cut is kept, and the torn array is counted."""
    text = json.dumps(EVENTS[:12], separators=(",", ":")).encode()
    ends = [len(json.dumps(EVENTS[:n], separators=(",", ":"))) - 1 for n in range(1, 13)]
    for cut in range(1, len(text)):
        damage = DamageLog()
        whole = sum(end <= cut for end in ends)
        assert lines_of(text[:cut], cuts=[], damage=damage) == EVENTS[:whole]
        assert damage.counts() == {"torn_array": 1}


def test_a_broken_element_does_not_take_its_neighbours(damage: DamageLog) -> None:
    """Unbalanced quotes and brackets in one event: the others are all kept."""
    texts = [json.dumps(event, separators=(",", ":")).encode() for event in EVENTS]
    texts[40] = b'{"eventId":"broken'
    texts[90] = b'{"eventId":"broken"]]]}'
    texts[91] = b'{"eventId":,}'
    text = b"[" + b",".join(texts) + b"]"
    expected = [event for n, event in enumerate(EVENTS) if n not in {40, 90, 91}]
    assert lines_of(text, cuts=list(range(0, len(text), 700)), damage=damage) == expected
    assert set(damage.counts()) <= {"corrupt_element", "trailing_bytes"}
    assert damage.counts()["corrupt_element"] >= 2


def test_a_wrong_guess_of_a_cut_is_noticed(damage: DamageLog) -> None:
    """A value that looks like the start of an event, inside of one."""
    inner = [{"x": 1}, {"eventId": "inner"}, {"eventId": "inner"}]
    events = [{"eventId": f"id{n}", "nested": inner} for n in range(50)]
    text = json.dumps(events).encode()
    for block_bytes in (500, 700, 1100):
        assert (
            lines_of(text, cuts=list(range(0, 5000, 90)), damage=damage, block_bytes=block_bytes)
            == events
        )
    assert not damage.items


def test_arrays_in_a_row_are_one(damage: DamageLog) -> None:
    """Nothing that KubeRay writes, but appending writers exist."""
    text = b"[1,2]\n[3]\n [] [4 , 5]"
    assert lines_of(text, cuts=[3, 9], damage=damage, block_bytes=4) == [1, 2, 3, 4, 5]
    assert not damage.items


def test_what_follows_the_array_is_counted(damage: DamageLog) -> None:
    """Only space and further arrays may."""
    assert lines_of(b"[1,2] x", cuts=[], damage=damage) == [1, 2]
    assert damage.counts() == {"trailing_bytes": 1}


def test_an_element_over_the_limit_is_skipped(damage: DamageLog) -> None:
    """The next event after it is found again."""
    huge = json.dumps({"eventId": "huge", "x": "y" * 50_000}, separators=(",", ":"))
    parts = [json.dumps(event, separators=(",", ":")) for event in EVENTS]
    text = ("[" + ",".join([*parts[:10], huge, *parts[10:]]) + "]").encode()
    chunks = [text[n : n + 500] for n in range(0, len(text), 500)]
    out = [
        json.loads(line)
        for block in array_blocks(
            chunks, key="k", damage=damage, block_bytes=1000, max_element_bytes=20_000
        )
        for line in block.splitlines()
    ]
    assert out == EVENTS
    assert damage.counts() == {"line_too_long": 1}


def test_a_large_array_is_never_held_whole(damage: DamageLog) -> None:
    """48 MB of events pass through a few megabytes of memory."""
    one = json.dumps(EVENTS, separators=(",", ":")).encode()[1:-1]

    def chunks() -> Iterator[bytes]:
        yield b"[" + one
        for _ in range(48_000_000 // len(one)):
            yield b"," + one
        yield b"]"

    tracemalloc.start()
    events = sum(block.count(b"\n") for block in array_blocks(chunks(), key="k", damage=damage))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert events == len(EVENTS) * (48_000_000 // len(one) + 1)
    assert peak_bytes < 12_000_000
    assert not damage.items


def test_a_huge_element_costs_linear_time(damage: DamageLog) -> None:
    """One event of 16 MB in small chunks: it is not scanned again with each of them."""
    text = json.dumps([{"eventId": "a"}, {"x": "y" * 16_000_000}, {"eventId": "b"}]).encode()
    chunks = [text[n : n + 65_536] for n in range(0, len(text), 65_536)]
    started_s = time.process_time()
    blocks = list(array_blocks(chunks, key="k", damage=damage))
    assert b"".join(blocks).count(b"\n") == 3
    assert time.process_time() - started_s < 3
