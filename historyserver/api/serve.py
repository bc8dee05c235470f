"""`/api/serve/applications/`: Ray Serve as the live dashboard last showed it."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.queries import snapshots

blueprint = flask.Blueprint("serve", __name__)

NAMES = ("/api/serve/applications/", "/api/serve/applications")
"""Ours, and what KubeRay's key (it drops the last slash) reads back as."""


@blueprint.get("/api/serve/applications/")
def applications() -> flask.Response:
    """The stored answer; no applications when Serve was not used."""
    compiled = current_session().compiled
    stored = (snapshots.whole(compiled, name) for name in NAMES)
    return answer(next((body for body in stored if body), {"applications": {}}))
