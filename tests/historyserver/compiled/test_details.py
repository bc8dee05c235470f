"""Details come back from their chunks, completed by what the row knows."""

from __future__ import annotations

from pathlib import Path

import msgspec

from historyserver.compiled.details import DETAILS_PER_CHUNK, DetailPacker, Details, unpack
from historyserver.folding.records import LogInfo, TaskDetail
from tests.historyserver.queries.session_builder import Task, build

INFO = LogInfo("/tmp/ray/s/logs/w.out", "/tmp/ray/s/logs/w.err", -1, 50, 7, 60)


def test_a_full_chunk_gives_each_detail_back() -> None:
    """In the order in which they were packed."""
    details = [TaskDetail(error_message=f"no {n}") for n in range(DETAILS_PER_CHUNK)]
    chunk = DetailPacker().pack([msgspec.msgpack.encode(detail) for detail in details])
    assert [msgspec.msgpack.decode(one, type=TaskDetail) for one in unpack(chunk)] == details


def test_starts_that_the_row_knows_are_put_in(tmp_path: Path) -> None:
    """Others stay as the events told them; so do details without log info."""
    tasks = [Task("01" * 24, detail=TaskDetail(log_info=INFO)), Task("02" * 24)]
    details = Details(build(tmp_path / "compiled", tasks=tasks))
    assert details.get(0).log_info == INFO
    placed = details.get(0, 20, None).log_info
    assert placed is not None
    assert (placed.stdout_start, placed.stderr_start) == (20, 7)
    assert (placed.stdout_end, placed.stderr_file) == (50, INFO.stderr_file)
    assert details.get(DETAILS_PER_CHUNK, 1, 1).log_info is None
