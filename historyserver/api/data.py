"""`/api/data/datasets/{job_id}`: Ray Data's progress as the live dashboard last showed it."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.queries import snapshots
from storage import endpoints

blueprint = flask.Blueprint("data", __name__)


@blueprint.get("/api/data/datasets/<job_id>")
def datasets(job_id: str) -> flask.Response:
    """The stored answer; no datasets when the job used none."""
    stored = snapshots.whole(current_session().compiled, endpoints.datasets(job_id))
    return answer(stored or {"datasets": []})
