"""`/api/train/v2/runs`: Ray Train's runs as the live dashboard last showed them."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.queries import snapshots
from storage import endpoints

blueprint = flask.Blueprint("train", __name__)

NAMES = (endpoints.TRAIN, "/api/train/v2/runs")


@blueprint.get("/api/train/v2/runs/v1")
@blueprint.get("/api/train/v2/runs")
def runs() -> flask.Response:
    """The stored answer; no runs when Train was not used."""
    compiled = current_session().compiled
    stored = (snapshots.whole(compiled, name) for name in NAMES)
    return answer(next((body for body in stored if body), {"train_runs": []}))
