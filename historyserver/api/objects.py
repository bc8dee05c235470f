"""Object routes of Ray's State API."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.api.arguments import request_arguments
from historyserver.queries import objects
from historyserver.queries.options import filters_of, list_options

blueprint = flask.Blueprint("objects", __name__)


@blueprint.get("/api/v0/objects")
def list_objects() -> flask.Response:
    """References to objects, filtered."""
    options = list_options(request_arguments())
    return answer(objects.list_objects(current_session().compiled, options))


@blueprint.get("/api/v0/objects/summarize")
def summarize_objects() -> flask.Response:
    """Counts and sizes of objects by call site."""
    filters = filters_of(request_arguments())
    return answer(objects.summarize_objects(current_session().compiled, filters))
