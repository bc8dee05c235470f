"""Job routes: the Jobs API and the State API."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.errors import UnknownEntityError
from historyserver.api.routing import request_arguments, session_routes
from historyserver.queries import jobs
from historyserver.queries.options import list_options
from historyserver.sessions import OpenSession

routes = session_routes("jobs")


@routes.get("/api/jobs")
@routes.get("/api/jobs/")
def all_jobs(session: OpenSession) -> flask.Response:
    """Every job as a bare list, as the Jobs API answers."""
    return answer(jobs.all_jobs(session.compiled))


@routes.get("/api/jobs/<job_id>")
def one_job(session: OpenSession, job_id: str) -> flask.Response:
    """One job by its submission id or its driver's job id."""
    job = jobs.one_job(session.compiled, job_id)
    if job is None:
        raise UnknownEntityError(f"Job {job_id[:80]} does not exist in this session.")
    return answer(job)


@routes.get("/api/v0/jobs")
def list_jobs(session: OpenSession) -> flask.Response:
    """Jobs, filtered."""
    options = list_options(request_arguments())
    return answer(jobs.list_jobs(session.compiled, options))
