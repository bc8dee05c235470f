"""Where an attempt's output starts, when Ray lost it.

Ray 2.55 keeps only the end offset of an attempt that starts and ends within one flush
(about a second). But a worker runs one normal task after the other and writes a line of its own
before each, `:task_name:NAME`, to stdout and stderr; before the first, `:job_id:JOB`. So a start
is the end of the attempt before on the same worker plus the length of that line: equal to what
the live dashboard answers, checked against real sessions. Where the attempt before is not
known, the start is not known either.
"""

from __future__ import annotations

from collections.abc import Sequence

from historyserver.folding.attempts import UNKNOWN

_JOB_LINE = len(":job_id:") + 8 + 1
_BEFORE_FIRST = (_JOB_LINE, _JOB_LINE)
_NAME_LINE = len(":task_name:") + 1


PendingLog = Sequence[int]
"""Start and end in stdout, in stderr, as far as events told; then the length of the task's name
in bytes: `UNKNOWN` for languages whose workers write no such line."""


class LogChain:
    """The output of each worker, attempt by attempt, in start order."""

    def __init__(self) -> None:
        self._ends: dict[int, tuple[int, int]] = {}

    def place(self, worker: int, log: PendingLog) -> tuple[int, int]:
        """Give where the output of a worker's next attempt starts, in stdout and stderr.

        Args:
            worker: any number that stands for the worker; 0 when it is not known.
            log: what the attempt's events said.

        """
        stdout_start, stdout_end, stderr_start, stderr_end, name_bytes = log
        before = self._ends.get(worker, _BEFORE_FIRST)
        if worker:
            self._ends[worker] = (stdout_end, stderr_end)
        else:
            before = (UNKNOWN, UNKNOWN)
        if stdout_start == UNKNOWN:
            stdout_start = _start(before[0], name_bytes, stdout_end)
        if stderr_start == UNKNOWN:
            stderr_start = _start(before[1], name_bytes, stderr_end)
        return stdout_start, stderr_start


def _start(before: int, name_bytes: int, end: int) -> int:
    if UNKNOWN in (before, name_bytes):
        return UNKNOWN
    start = before + _NAME_LINE + name_bytes
    return start if start <= end else UNKNOWN
