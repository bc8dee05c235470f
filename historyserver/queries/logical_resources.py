"""Resources as text, in the form of Ray's autoscaler reports."""

from __future__ import annotations

from collections.abc import Mapping

UNKNOWN = "?"
"""Printed for usage: no event tells how much of a resource was in use."""

_MEMORY = frozenset({"memory", "object_store_memory"})
_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def resources_text(totals: Mapping[str, float]) -> str:
    """One line per resource: `?/4.0 CPU`. The automatic `node:` resources are left out."""
    return "\n".join(
        f"{UNKNOWN}/{memory_text(total) if name in _MEMORY else float(total)} {name}"
        for name, total in sorted(totals.items())
        if "node:" not in name
    )


def memory_text(size_bytes: float) -> str:
    """Bytes for people, as Ray prints them: `22.62GiB`."""
    for unit, unit_bytes in _UNITS:
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:.2f}{unit}"
    return f"{int(size_bytes)}B"
