"""The names under which log incarnations are stored: the last local one, made unique.

An incarnation that Ray rotated out of existence last had a name that a younger incarnation
bears now. It is stored as `<that name>.gone-1`, the next one as `.gone-2`: numbered in the
order they vanished, never changed again. A file that was deleted while nobody took its
name keeps it, until somebody does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from collector.tails.tailed import TailedLog

_SETTLED = re.compile(r"\.gone-[0-9]+\Z")


def is_settled(path: str) -> bool:
    """Whether this is a name that will never change again."""
    return _SETTLED.search(path) is not None


def settle_names(logs: Iterable[TailedLog]) -> None:
    """Give every incarnation that has no name of its own any more one that is free."""
    alive: set[str] = set()
    ended: list[TailedLog] = []
    for log in logs:
        if log.local is None:
            ended.append(log)
        else:
            alive.add(log.path)
    taken = alive | {log.path for log in ended if is_settled(log.path)}
    for log in ended:
        if is_settled(log.path) and log.path not in alive:
            continue
        if log.path in taken:
            number = 1
            base = _SETTLED.sub("", log.path)
            while f"{base}.gone-{number}" in taken:
                number += 1
            log.path = f"{base}.gone-{number}"
        taken.add(log.path)
