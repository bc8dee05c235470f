"""`/api/data/datasets/{job_id}`: Ray Data's progress as the live dashboard last showed it."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.routing import session_routes
from historyserver.queries import snapshots
from historyserver.sessions import OpenSession
from storage import endpoints

routes = session_routes("data")


@routes.get("/api/data/datasets/<job_id>")
def datasets(session: OpenSession, job_id: str) -> flask.Response:
    """The stored answer; no datasets when the job used none."""
    stored = snapshots.whole(session.compiled, endpoints.datasets(job_id))
    return answer(stored or {"datasets": []})
