"""What is found out about the tasks of an open session once, by one scan, and remembered.

It goes when the session is closed and nobody holds it any more.
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from historyserver.compiled.opener import CompiledSession

_Rows = dict[tuple[str, tuple[object, ...]], tuple[int, ...]]

_known: WeakKeyDictionary[CompiledSession, _Rows] = WeakKeyDictionary()
_lock = threading.Lock()


def rows_but(
    session: CompiledSession, condition: str, parameters: tuple[object, ...]
) -> tuple[int, ...]:
    """The rows of `tasks` that do not meet a condition, which must be few."""
    with _lock:
        known = _known.setdefault(session, {})
    rows = known.get((condition, parameters))
    if rows is None:
        found = session.connection().execute(
            f"SELECT row FROM tasks WHERE NOT coalesce({condition}, 0)",  # noqa: S608
            parameters,
        )
        rows = known[condition, parameters] = tuple(row[0] for row in found)
    return rows
