"""Placement groups: known from snapshots only, since Ray exports no events of them."""

from __future__ import annotations

from typing import Any

from historyserver.compiled.opener import CompiledSession
from historyserver.queries import snapshots
from historyserver.queries.columns import PLACEMENT_GROUPS
from historyserver.queries.matching import answer_list
from historyserver.queries.options import ListOptions
from storage import endpoints


def list_placement_groups(session: CompiledSession, options: ListOptions) -> dict[str, Any]:
    """`/api/v0/placement_groups`. Raises `QueryError`."""
    rows = [
        {**row, "bundles": row.get("bundles") or []}  # the job page reads it without asking
        for _, row in snapshots.items(session, endpoints.PLACEMENT_GROUPS)
    ]
    return answer_list(
        rows, options, PLACEMENT_GROUPS, sort_key=lambda row: row.get("placement_group_id") or ""
    )
