"""Search, sort and keyset pages over the list of sessions."""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyserver.catalogue import PagingError, SessionEntry, SortKey, page
from historyserver.folding.session_state import SessionState
from historyserver.reading.state import StateReason
from storage.layout import SessionRef


def entry_of(number: int, **changes: Any) -> SessionEntry:
    session = f"session_2026-11-{1 + number % 28:02d}_10-00-00_{number:06d}_7"
    entry = SessionEntry(
        ref=SessionRef("ml", f"c{number % 7}", session),
        state=(SessionState.ENDED, SessionState.RUNNING, SessionState.UNCLEAN)[number % 3],
        reason=StateReason.END_MARKER,
        start_ms=1_000 * (number % 5),
        end_ms=None if number % 4 == 0 else 10_000 + number % 3,
        size_bytes=None if number % 6 == 0 else number % 10,
    )
    return dataclasses.replace(entry, **changes)


ENTRIES = [entry_of(number) for number in range(50)]
random.Random(3).shuffle(ENTRIES)


@settings(deadline=None, max_examples=100)
@given(sort=st.sampled_from(list(SortKey)), descending=st.booleans(), limit=st.integers(1, 60))
def test_pages_joined_are_the_whole_list(sort: SortKey, descending: bool, limit: int) -> None:
    """In one order, nothing twice and nothing missing, whatever the size of the page."""
    whole = page(ENTRIES, sort=sort.value, descending=descending, limit=1000)
    rows: list[SessionEntry] = []
    cursor: str | None = ""
    while cursor is not None:
        part = page(ENTRIES, sort=sort, descending=descending, limit=limit, cursor=cursor)
        assert part.total == 50
        rows += part.entries
        cursor = part.next_cursor
    assert tuple(rows) == whole.entries
    assert sorted(entry.id for entry in rows) == sorted(entry.id for entry in ENTRIES)


@pytest.mark.parametrize("descending", [True, False])
def test_what_is_not_known_comes_last(descending: bool) -> None:
    """In both orders."""
    rows = page(ENTRIES, sort="size", descending=descending).entries
    sizes = [entry.size_bytes for entry in rows if entry.size_bytes is not None]
    assert sizes == sorted(sizes, reverse=descending)
    assert [entry.size_bytes for entry in rows[len(sizes) :]] == [None] * (50 - len(sizes))


def test_a_list_that_grows_neither_repeats_nor_skips() -> None:
    """The cursor holds a place in the order and no number of rows."""
    first = page(ENTRIES, limit=10)
    newer = [entry_of(100 + n, start_ms=10**9) for n in range(5)]
    assert first.next_cursor
    second = page([*newer, *ENTRIES], limit=1000, cursor=first.next_cursor)
    assert (*first.entries, *second.entries) == page(ENTRIES, limit=1000).entries


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("", {1, 2, 3}),
        ("ML", {1, 2}),
        ("prod nightly", {3}),
        ("rayjob", {3}),
        ("running", {1}),
        ("000002", {2}),
        ("  c1  ", {1}),
        ("ml prod", set()),
        ("50%_", set()),
    ],
)
def test_every_word_of_the_search_must_occur(search: str, expected: set[int]) -> None:
    """In namespace, cluster, owner, session or state, whatever the case; nothing is a pattern."""
    entries = [
        entry_of(1),
        entry_of(2),
        entry_of(3, ref=SessionRef("prod", "c3", entry_of(3).ref.session, "rayjob", "Nightly-Run")),
    ]
    found = page(entries, search=search)
    assert {entries.index(entry) + 1 for entry in found.entries} == expected
    assert found.total == len(expected)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sort": "colour"},
        {"limit": 0},
        {"limit": 10_001},
        {"cursor": "%%%"},
        {"cursor": "AAAA"},
        {"cursor": "ü"},
        {"sort": "name", "cursor": page(ENTRIES, limit=1).next_cursor},
        {"descending": False, "cursor": page(ENTRIES, limit=1).next_cursor},
    ],
)
def test_a_wrong_request_is_told_so(wrong: dict[str, Any]) -> None:
    """One line that a client may read."""
    with pytest.raises(PagingError) as caught:
        page(ENTRIES, **wrong)
    assert "\n" not in str(caught.value)


def test_a_page_of_ten_thousand_is_quick() -> None:
    """A page of the list is made for every view."""
    entries = [entry_of(number) for number in range(10_000)]
    started_s = time.process_time()
    for _ in range(3):
        assert len(page(entries, search="ended ml", sort="name").entries) == 100
    assert (time.process_time() - started_s) / 3 < 0.5
