"""Where output starts, when Ray tells only where it ends."""

from __future__ import annotations

from historyserver.folding.log_offsets import LogChain, PendingLog

JOB_LINE = len(":job_id:02000000\n")
NAME_LINE = len(":task_name:square\n")


def pending(stdout: tuple[int, int], stderr: tuple[int, int], name_bytes: int = 6) -> PendingLog:
    """What an attempt's events said."""
    return (*stdout, *stderr, name_bytes)


def starts(chain: LogChain, worker: int, log: PendingLog) -> tuple[int, int]:
    """The starts of the next attempt."""
    return chain.place(worker, log)


def test_each_attempt_starts_where_the_one_before_ended() -> None:
    """Plus the worker's own line with the task's name; the first one after the job's line."""
    chain = LogChain()
    assert starts(chain, 1, pending((-1, 44), (-1, 35))) == (JOB_LINE + NAME_LINE,) * 2
    assert starts(chain, 1, pending((-1, 71), (-1, 53))) == (44 + NAME_LINE, 35 + NAME_LINE)


def test_workers_are_chains_of_their_own() -> None:
    """Another worker begins anew."""
    chain = LogChain()
    chain.place(1, pending((-1, 44), (-1, 35)))
    assert starts(chain, 2, pending((-1, 50), (-1, 50))) == (JOB_LINE + NAME_LINE,) * 2


def test_a_start_that_ray_told_is_kept() -> None:
    """Ray 2.60 tells it."""
    assert starts(LogChain(), 1, pending((40, 44), (38, 38))) == (40, 38)


def test_after_an_unknown_end_the_next_start_is_unknown() -> None:
    """Rather than a wrong one; the one after is known again."""
    chain = LogChain()
    chain.place(1, pending((-1, -1), (-1, -1)))
    assert starts(chain, 1, pending((-1, 90), (-1, 90))) == (-1, -1)
    assert starts(chain, 1, pending((-1, 120), (-1, 120))) == (90 + NAME_LINE,) * 2


def test_a_start_behind_the_end_is_unknown() -> None:
    """Something else wrote, or the chain has a hole."""
    assert starts(LogChain(), 1, pending((-1, 20), (-1, 20))) == (-1, -1)


def test_without_worker_or_name_line_the_start_is_unknown() -> None:
    """No worker known; or a language whose workers write no such line."""
    assert starts(LogChain(), 0, pending((-1, 44), (-1, 44))) == (-1, -1)
    assert starts(LogChain(), 1, pending((-1, 44), (-1, 44), name_bytes=-1)) == (-1, -1)
