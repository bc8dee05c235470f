"""Task routes of Ray's State API."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import flask

from historyserver.api.answers import answer
from historyserver.api.errors import UnknownEntityError
from historyserver.api.routing import request_arguments, session_routes
from historyserver.http.conditions import accepts_gzip
from historyserver.queries.lineage import prepared_lineage, summary_by_lineage
from historyserver.queries.options import filters_of, list_options
from historyserver.queries.task_summaries import check_summary_by, summary_by_function
from historyserver.queries.tasks import task_json, tasks_json
from historyserver.queries.timeline import timeline
from historyserver.sessions import OpenSession

routes = session_routes("tasks")


@routes.get("/api/v0/tasks")
def list_tasks(session: OpenSession) -> flask.Response:
    """Task attempts, filtered, page by page."""
    options = list_options(request_arguments())
    return answer(tasks_json(session.compiled, options))


@routes.get("/api/v0/tasks/<task_id>")
def task(session: OpenSession, task_id: str) -> flask.Response:
    """All attempts of one task, in detail: a short form of the filter on `task_id`."""
    body = task_json(session.compiled, task_id)
    if body is None:
        raise UnknownEntityError(f"This session has no task {task_id[:80]}.")
    return answer(body)


@routes.get("/api/v0/tasks/summarize")
def summarize_tasks(session: OpenSession) -> flask.Response:
    """Counts of attempts by function, or as a tree by lineage."""
    arguments = request_arguments()
    filters = filters_of(arguments)
    compiled = session.compiled
    if not check_summary_by(next(iter(arguments.get("summary_by", ())), None)):
        return answer(summary_by_function(compiled, filters))
    packed = prepared_lineage(compiled, filters)
    if packed is None:
        return answer(summary_by_lineage(compiled, filters))
    if accepts_gzip(flask.request):
        return answer(packed, headers={"Content-Encoding": "gzip"})
    return answer(gzip.decompress(packed))


@routes.get("/api/v0/tasks/timeline")
def tasks_timeline(session: OpenSession) -> flask.Response:
    """A Chrome trace of all attempts, streamed; `download=1` names a file."""
    job_id = flask.request.args.get("job_id") or None
    headers = {}
    if flask.request.args.get("download") == "1":
        now = datetime.now(tz=UTC).strftime("%Y-%m-%d_%H-%M-%S")
        name = "".join(c for c in str(job_id) if c.isalnum())[:64]
        headers["Content-Disposition"] = f'attachment; filename="timeline-{name}-{now}.json"'
    return answer(timeline(session.compiled, job_id), headers=headers)
