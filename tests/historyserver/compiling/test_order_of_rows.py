"""The rows of all partitions come in one order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from historyserver.compiling.task_table import merged


@given(
    streams=st.lists(st.lists(st.integers(0, 30), max_size=40), max_size=5),
    batch=st.integers(1, 7),
)
def test_batches_merge_into_one_order(streams: list[list[int]], batch: int) -> None:
    """Whatever the sizes of streams and batches; no batch is empty."""
    parts = [
        iter([[[value] for value in sorted(s)[i : i + batch]] for i in range(0, len(s), batch)])
        for s in streams
    ]
    found = list(merged(parts))
    assert all(found)
    assert [row[0] for rows in found for row in rows] == sorted(v for s in streams for v in s)
