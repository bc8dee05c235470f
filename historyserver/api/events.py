"""`/events`: Ray's own cluster events, and `ray list cluster-events`."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.api.errors import BadRequestError
from historyserver.queries import cluster_events

blueprint = flask.Blueprint("events", __name__)

DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000


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
    args = flask.request.args
    try:
        limit = int(args.get("limit", DEFAULT_LIMIT))
    except ValueError as error:
        raise BadRequestError("limit must be a whole number") from error
    if not 0 < limit <= MAX_LIMIT:
        raise BadRequestError(f"limit must be between 1 and {MAX_LIMIT}")
    wanted = list(
        zip(
            args.getlist("filter_keys"),
            args.getlist("filter_predicates"),
            args.getlist("filter_values"),
            strict=False,
        )
    )
    rows = cluster_events.as_state_rows(current_session().compiled)
    kept = [row for row in rows if all(_passes(row, *one) for one in wanted)]
    return answer(
        {
            "result": True,
            "msg": "",
            "data": {
                "result": {
                    "total": len(rows),
                    "num_after_truncation": len(rows),
                    "num_filtered": len(kept),
                    "result": kept[:limit],
                    "partial_failure_warning": "",
                    "warnings": [],
                }
            },
        }
    )


def _passes(row: dict[str, object], key: str, predicate: str, value: str) -> bool:
    if key not in row or key == "custom_fields":
        raise BadRequestError(f"cluster events cannot be filtered by {key!r}")
    if predicate not in ("=", "!="):
        raise BadRequestError(f"unknown predicate {predicate!r}; use = or !=")
    return (str(row[key]).lower() == value.lower()) == (predicate == "=")
