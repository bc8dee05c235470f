"""Where an attempt's output starts, when Ray lost it.

Ray 2.55 keeps only the end offset of an attempt that starts and ends within one flush
(about a second). But a worker runs one normal task after the other and writes a line of its own
before each, `:task_name:NAME`, to stdout and stderr; before the first, `:job_id:JOB`. So a start
is the end of the attempt before on the same worker plus the length of that line: equal to what
the live dashboard answers, checked against real sessions. Where the attempt before is not
known, the start is not known either.
"""

from __future__ import annotations

from historyserver.folding.attempts import UNKNOWN
from historyserver.folding.records import LogInfo

_JOB_LINE = len(":job_id:") + 8 + 1
_NAME_LINE = len(":task_name:") + 1


class LogChain:
    """The output of each worker, attempt by attempt, in start order."""

    def __init__(self) -> None:
        self._ends: dict[int, tuple[int, int]] = {}

    def place(self, worker: int, log: PendingLog) -> LogInfo:
        """Fill in the starts of the next attempt on a worker.

        Args:
            worker: any number that stands for the worker; 0 when it is not known.
            log: what its events said.

        """
        stdout_end, stderr_end = self._ends.get(worker, (_JOB_LINE, _JOB_LINE))
        if worker:
            self._ends[worker] = (log.stdout_end, log.stderr_end)
        else:
            stdout_end = stderr_end = UNKNOWN
        return LogInfo(
            log.stdout_file,
            log.stderr_file,
            _start(log.stdout_start, stdout_end, log.name_bytes, log.stdout_end),
            log.stdout_end,
            _start(log.stderr_start, stderr_end, log.name_bytes, log.stderr_end),
            log.stderr_end,
        )


class PendingLog(LogInfo, array_like=True, frozen=True):
    """A `LogInfo` whose starts may be missing, with the length of the task's name."""

    name_bytes: int = UNKNOWN
    """`UNKNOWN` for languages whose workers write no such line."""


def _start(told: int, before: int, name_bytes: int, end: int) -> int:
    if told != UNKNOWN or UNKNOWN in (before, name_bytes):
        return told
    start = before + _NAME_LINE + name_bytes
    return start if start <= end else UNKNOWN
