"""Placement group routes of Ray's State API."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.api.arguments import request_arguments
from historyserver.queries import placement_groups
from historyserver.queries.options import list_options

blueprint = flask.Blueprint("placement_groups", __name__)


@blueprint.get("/api/v0/placement_groups")
def list_placement_groups() -> flask.Response:
    """Placement groups, filtered."""
    options = list_options(request_arguments())
    return answer(placement_groups.list_placement_groups(current_session().compiled, options))
