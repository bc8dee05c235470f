"""`/api/serve/applications/`: Ray Serve as the live dashboard last showed it."""

from __future__ import annotations

from typing import Any

import flask

from historyserver.api.answers import answer
from historyserver.api.routing import session_routes
from historyserver.queries import snapshots
from historyserver.sessions import OpenSession
from storage import endpoints

routes = session_routes("serve")

NAMES = (endpoints.SERVE, "/api/serve/applications")
"""Ours, and what KubeRay's key (it drops the last slash) reads back as."""
UNUSED: dict[str, Any] = {
    "deploy_mode": "MULTI_APP",
    "controller_info": {},
    "proxies": {},
    "applications": {},
    "target_capacity": None,
}
"""What Ray 2.55 answers while nobody uses Serve."""


@routes.get("/api/serve/applications/")
def applications(session: OpenSession) -> flask.Response:
    """The stored answer; no applications when Serve was not used."""
    compiled = session.compiled
    stored = (snapshots.whole(compiled, name) for name in NAMES)
    return answer(next((body for body in stored if body), UNUSED))
