"""Objects in Ray's object store and references to them: known from a snapshot only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from historyserver.compiled.envelopes import listing
from historyserver.compiled.opener import CompiledSession
from historyserver.queries import fitting, snapshots
from historyserver.queries.columns import OBJECTS
from historyserver.queries.matching import answer_list, matching
from historyserver.queries.options import Filter, ListOptions
from storage import endpoints

_MIB = 1024**2


def list_objects(session: CompiledSession, options: ListOptions) -> dict[str, Any]:
    """`/api/v0/objects`. Raises `QueryError`."""
    rows, inner = _kept(session)
    return answer_list(
        rows,
        options,
        OBJECTS,
        sort_key=lambda row: row["object_id"] or "",
        kept=inner,
    )


def summarize_objects(session: CompiledSession, filters: tuple[Filter, ...]) -> dict[str, Any]:
    """`/api/v0/objects/summarize`: by call site. Raises `QueryError`."""
    rows, inner = _kept(session)
    chosen = matching(rows, filters, OBJECTS)
    by_site: dict[str, list[Mapping[str, Any]]] = {}
    for row in chosen:
        by_site.setdefault(row["call_site"] or "", []).append(row)
    cluster = {
        "summary": {site: _site(found) for site, found in by_site.items()},
        "total_objects": len(chosen),
        "total_size_mb": _size_mb(chosen),
        "callsite_enabled": "disabled" not in by_site,
        "summary_by": "callsite",
    }
    return listing(
        {"node_id_to_summary": {"cluster": cluster}},
        total=len(rows),
        filtered=len(chosen),
        kept=inner,
    )


def _kept(session: CompiledSession) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows, and the envelope of the answer that they came in."""
    body = snapshots.whole(session, endpoints.OBJECTS)
    return snapshots.rows_of(body, OBJECTS, fitting.OBJECTS)


def _site(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "total_objects": len(rows),
        "total_size_mb": _size_mb(rows),
        "total_num_workers": len({row["pid"] for row in rows}),
        "total_num_nodes": len({row["ip"] for row in rows}),
        "task_state_counts": _counts(rows, "task_status"),
        "task_attempt_number_counts": _counts(rows, "attempt_number"),
        "ref_type_counts": _counts(rows, "reference_type"),
    }


def _counts(rows: list[Mapping[str, Any]], column: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        value = str(row[column])
        counts[value] = counts.get(value, 0) + 1
    return counts


def _size_mb(rows: list[Mapping[str, Any]]) -> float:
    """Ray writes -1 for a size that it does not know."""
    sizes_bytes = [int(row["object_size"] or 0) for row in rows]
    return sum((size / _MIB for size in sizes_bytes if size != -1), 0.0)
