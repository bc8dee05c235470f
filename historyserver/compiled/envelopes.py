"""The envelopes that Ray's dashboard puts around its answers.

Some answers are made when a session is compiled, the others from the compiled session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_OF_SNAPSHOT = ("total", "num_after_truncation", "partial_failure_warning", "warnings")
"""What Ray alone knows of a list that was kept: it counts before it joins and cuts."""


def listing(
    result: Any,
    *,
    total: int,
    filtered: int,
    kept: Mapping[str, Any] | None = None,
    warnings: Sequence[str] | None = None,
) -> dict[str, Any]:
    """A State API answer.

    `num_after_truncation` equals `total` unless a snapshot tells otherwise: nothing is cut off
    at the source here, where Ray cuts at 10,000. `kept` is the envelope of such a snapshot.
    """
    inner: dict[str, Any] = {
        "total": total,
        "num_after_truncation": total,
        "num_filtered": filtered,
        "result": result,
        "partial_failure_warning": "",
        "warnings": list(warnings) if warnings else None,
    }
    for name in _OF_SNAPSHOT:
        if kept is not None and name in kept:
            inner[name] = kept[name]
    return success("", {"result": inner})


def success(message: str, data: dict[str, Any]) -> dict[str, Any]:
    """A dashboard answer."""
    return {"result": True, "msg": message, "data": data}
