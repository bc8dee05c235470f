"""`/api/train/v2/runs`: Ray Train's runs as the live dashboard last showed them."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.routing import session_routes
from historyserver.queries import snapshots
from historyserver.sessions import OpenSession
from storage import endpoints

routes = session_routes("train")

NAMES = (endpoints.TRAIN, "/api/train/v2/runs")


@routes.get("/api/train/v2/runs/v1")
@routes.get("/api/train/v2/runs")
def runs(session: OpenSession) -> flask.Response:
    """The stored answer; no runs when Train was not used."""
    compiled = session.compiled
    stored = (snapshots.whole(compiled, name) for name in NAMES)
    return answer(next((body for body in stored if body), {"train_runs": []}))
