"""The memory of a process tree, sampled while something runs."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

_SAMPLE_S = 0.02


class Peak:
    """The largest sum of proportional set sizes seen, so that shared pages count once."""

    def __init__(self) -> None:
        self.mib = 0.0


@contextlib.contextmanager
def peak_of_children() -> Iterator[Peak]:
    """Watch this process's descendants, not itself, until the block ends."""
    peak, stop = Peak(), threading.Event()

    def watch() -> None:
        while not stop.wait(_SAMPLE_S):
            total = sum(_pss_kib(pid) for pid in _descendants(os.getpid()))
            peak.mib = max(peak.mib, total / 1024)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _pss_kib(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
