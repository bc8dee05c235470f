"""Placement group routes of Ray's State API."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.routing import request_arguments, session_routes
from historyserver.queries import placement_groups
from historyserver.queries.options import list_options
from historyserver.sessions import OpenSession

routes = session_routes("placement_groups")


@routes.get("/api/v0/placement_groups")
def list_placement_groups(session: OpenSession) -> flask.Response:
    """Placement groups, filtered."""
    options = list_options(request_arguments())
    return answer(placement_groups.list_placement_groups(session.compiled, options))
