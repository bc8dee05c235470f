"""`/events`: Ray's own cluster events, and `ray list cluster-events`."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.routing import request_arguments, session_routes
from historyserver.compiled.envelopes import success
from historyserver.queries import cluster_events
from historyserver.queries.options import list_options
from historyserver.sessions import OpenSession

routes = session_routes("events")


@routes.get("/events")
def events(session: OpenSession) -> flask.Response:
    """All events by job, or one job's."""
    compiled = session.compiled
    job_id = flask.request.args.get("job_id")
    if job_id is None:
        return answer(success("All events fetched.", {"events": cluster_events.by_job(compiled)}))
    found = cluster_events.of_job(compiled, job_id)
    return answer(success("Job events fetched.", {"jobId": job_id, "events": found}))


@routes.get("/api/v0/cluster_events")
def list_cluster_events(session: OpenSession) -> flask.Response:
    """The rows of `ray list cluster-events`, the earliest first."""
    options = list_options(request_arguments())
    return answer(cluster_events.list_cluster_events(session.compiled, options))
