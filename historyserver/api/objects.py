"""Object routes of Ray's State API."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.routing import request_arguments, session_routes
from historyserver.queries import objects
from historyserver.queries.options import filters_of, list_options
from historyserver.sessions import OpenSession

routes = session_routes("objects")


@routes.get("/api/v0/objects")
def list_objects(session: OpenSession) -> flask.Response:
    """References to objects, filtered."""
    options = list_options(request_arguments())
    return answer(objects.list_objects(session.compiled, options))


@routes.get("/api/v0/objects/summarize")
def summarize_objects(session: OpenSession) -> flask.Response:
    """Counts and sizes of objects by call site."""
    filters = filters_of(request_arguments())
    return answer(objects.summarize_objects(session.compiled, filters))
