"""`/events`: Ray's own cluster events, and `ray list cluster-events`."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.api.arguments import request_arguments
from historyserver.api.errors import BadRequestError
from historyserver.queries import cluster_events
from historyserver.queries.options import EQUAL, NOT_EQUAL, Filter, list_options

blueprint = flask.Blueprint("events", __name__)


@blueprint.get("/events")
def events() -> flask.Response:
    """All events by job, or one job's."""
    compiled = current_session().compiled
    job_id = flask.request.args.get("job_id")
    if job_id is None:
        return answer(
            {
                "result": True,
                "msg": "All events fetched.",
                "data": {"events": cluster_events.by_job(compiled)},
            }
        )
    return answer(
        {
            "result": True,
            "msg": "Job events fetched.",
            "data": {"jobId": job_id, "events": cluster_events.of_job(compiled, job_id)},
        }
    )


@blueprint.get("/api/v0/cluster_events")
def list_cluster_events() -> flask.Response:
    """The rows of `ray list cluster-events`, the earliest first."""
    options = list_options(request_arguments())
    rows = cluster_events.as_state_rows(current_session().compiled)
    kept = [row for row in rows if all(_passes(row, one) for one in options.filters)]
    return answer(
        {
            "result": True,
            "msg": "",
            "data": {
                "result": {
                    "total": len(rows),
                    "num_after_truncation": len(rows),
                    "num_filtered": len(kept),
                    "result": kept[: options.limit],
                    "partial_failure_warning": "",
                    "warnings": [],
                }
            },
        }
    )


def _passes(row: dict[str, object], wanted: Filter) -> bool:
    if wanted.key not in row or wanted.key == "custom_fields":
        raise BadRequestError(f"cluster events cannot be filtered by {wanted.key[:80]!r}")
    if wanted.predicate not in (EQUAL, NOT_EQUAL):
        raise BadRequestError(f"unknown predicate {wanted.predicate!r}; use = or !=")
    return (str(row[wanted.key]).lower() == wanted.value.lower()) == (wanted.predicate == EQUAL)
