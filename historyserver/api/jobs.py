"""Job routes: the Jobs API and the State API."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.api.arguments import request_arguments
from historyserver.api.errors import UnknownEntityError
from historyserver.queries import jobs
from historyserver.queries.options import list_options

blueprint = flask.Blueprint("jobs", __name__)


@blueprint.get("/api/jobs", strict_slashes=False)
@blueprint.get("/api/jobs/")
def all_jobs() -> flask.Response:
    """Every job as a bare list, as the Jobs API answers."""
    return answer(jobs.all_jobs(current_session().compiled))


@blueprint.get("/api/jobs/<job_id>")
def one_job(job_id: str) -> flask.Response:
    """One job by its submission id or its driver's job id."""
    job = jobs.one_job(current_session().compiled, job_id)
    if job is None:
        raise UnknownEntityError(f"Job {job_id[:80]} does not exist in this session.")
    return answer(job)


@blueprint.get("/api/v0/jobs")
def list_jobs() -> flask.Response:
    """Jobs, filtered."""
    options = list_options(request_arguments())
    return answer(jobs.list_jobs(current_session().compiled, options))
