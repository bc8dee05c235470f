"""What Ray's own code counts over our rows: the only numbers that a summary may have."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ray.util.state.common import ActorSummaries, TaskSummaries

from tests.fidelity.comparing import Difference, Verdict
from tests.fidelity.evidence import ACTORS, TASKS, Evidence, matching, query, rows
from tests.fidelity.leaves import leaves


def is_rays_count(difference: Difference, evidence: Evidence) -> bool:
    """Our value is what Ray makes of our rows; a field that is missing is not in it."""
    expected = leaves(_body(summary(difference.path, evidence)))
    found = expected.get(difference.place)
    if difference.verdict is Verdict.MISSING:
        return found is None
    return found is not None and found.value == difference.ours


def summary(path: str, evidence: Evidence) -> dict[str, Any]:
    """Ray's summary of our rows, for the request for a summary."""
    actors = rows(evidence.ours, ACTORS)
    tasks = matching(rows(evidence.ours, TASKS), path)
    if path.startswith("/api/v0/actors/"):
        return asdict(ActorSummaries.to_summary(actors=actors))
    if query(path).get("summary_by") == "lineage":
        return asdict(TaskSummaries.to_summary_by_lineage(tasks=tasks, actors=actors))
    return asdict(TaskSummaries.to_summary_by_func_name(tasks=tasks))


def _body(cluster: dict[str, Any]) -> dict[str, Any]:
    return {"data": {"result": {"result": {"node_id_to_summary": {"cluster": cluster}}}}}
