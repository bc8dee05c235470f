"""Task routes of Ray's State API."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import flask

from historyserver.api import current_session
from historyserver.api.answers import accepts_gzip, answer
from historyserver.api.arguments import request_arguments
from historyserver.api.errors import UnknownEntityError
from historyserver.queries.lineage import prepared_lineage, summary_by_lineage
from historyserver.queries.options import EQUAL, Filter, ListOptions, filters_of, list_options
from historyserver.queries.task_summaries import check_summary_by, summary_by_function
from historyserver.queries.tasks import tasks_json
from historyserver.queries.timeline import timeline

blueprint = flask.Blueprint("tasks", __name__)


@blueprint.get("/api/v0/tasks")
def list_tasks() -> flask.Response:
    """Task attempts, filtered, page by page."""
    options = list_options(request_arguments())
    return answer(tasks_json(current_session().compiled, options))


@blueprint.get("/api/v0/tasks/<task_id>")
def task(task_id: str) -> flask.Response:
    """All attempts of one task, in detail: a short form of the filter on `task_id`."""
    options = ListOptions(
        detail=True, exclude_driver=False, filters=(Filter("task_id", EQUAL, task_id),)
    )
    body = tasks_json(current_session().compiled, options)
    if b'"result":[]' in body[:200]:
        raise UnknownEntityError(f"This session has no task {task_id[:80]}.")
    return answer(body)


@blueprint.get("/api/v0/tasks/summarize")
def summarize_tasks() -> flask.Response:
    """Counts of attempts by function, or as a tree by lineage."""
    arguments = request_arguments()
    filters = filters_of(arguments)
    session = current_session().compiled
    if not check_summary_by(next(iter(arguments.get("summary_by", ())), None)):
        return answer(summary_by_function(session, filters))
    packed = prepared_lineage(session, filters)
    if packed is None:
        return answer(summary_by_lineage(session, filters))
    if accepts_gzip(flask.request):
        return answer(packed, headers={"Content-Encoding": "gzip"})
    return answer(gzip.decompress(packed))


@blueprint.get("/api/v0/tasks/timeline")
def tasks_timeline() -> flask.Response:
    """A Chrome trace of all attempts, streamed; `download=1` names a file."""
    job_id = flask.request.args.get("job_id") or None
    headers = {}
    if flask.request.args.get("download") == "1":
        now = datetime.now(tz=UTC).strftime("%Y-%m-%d_%H-%M-%S")
        name = "".join(c for c in str(job_id) if c.isalnum())[:64]
        headers["Content-Disposition"] = f'attachment; filename="timeline-{name}-{now}.json"'
    return answer(timeline(current_session().compiled, job_id), headers=headers)
