"""Compares answers field by field."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Hashable, Iterable
from typing import Any

MISSING = "(missing)"
_OPEN = frozenset({"raylet"})
"""Objects whose fields are told apart; others are compared whole."""


def different_fields(
    ours: Iterable[dict[str, Any]],
    live: Iterable[dict[str, Any]],
    identity: Callable[[dict[str, Any]], Hashable],
) -> set[str]:
    """The names of fields that differ in any row; "" when the rows are not the same ones."""
    our_rows = _grouped(ours, identity)
    live_rows = _grouped(live, identity)
    found = {""} if our_rows.keys() != live_rows.keys() else set()
    for key in our_rows.keys() & live_rows.keys():
        for mine, theirs in zip(our_rows[key], live_rows[key], strict=True):
            found |= set(_different(mine, theirs, ""))
    return found


def unpacked(body: bytes) -> bytes:
    """The body of a gzip answer."""
    return gzip.decompress(body)


def _grouped(
    rows: Iterable[dict[str, Any]], identity: Callable[[dict[str, Any]], Hashable]
) -> dict[Hashable, list[dict[str, Any]]]:
    found: dict[Hashable, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(identity(row), []).append(row)
    return found


def _different(mine: dict[str, Any], theirs: dict[str, Any], prefix: str) -> Iterable[str]:
    for name in mine.keys() | theirs.keys():
        left, right = mine.get(name, MISSING), theirs.get(name, MISSING)
        if name in _OPEN and isinstance(left, dict) and isinstance(right, dict):
            yield from _different(left, right, f"{prefix}{name}.")
        elif left != right:
            yield f"{prefix}{name}"
