"""Actor routes: the State API and the dashboard's actor table."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.routing import request_arguments, session_routes
from historyserver.queries import actors
from historyserver.queries.options import filters_of, list_options
from historyserver.sessions import OpenSession

routes = session_routes("actors")


@routes.get("/api/v0/actors")
def list_actors(session: OpenSession) -> flask.Response:
    """Actors, filtered."""
    options = list_options(request_arguments())
    return answer(actors.list_actors(session.compiled, options))


@routes.get("/api/v0/actors/summarize")
def summarize_actors(session: OpenSession) -> flask.Response:
    """Counts of actors by class and state."""
    filters = filters_of(request_arguments())
    return answer(actors.summarize_actors(session.compiled, filters))


@routes.get("/logical/actors")
def actor_table(session: OpenSession) -> flask.Response:
    """Every actor as the dashboard shows it; `ids=A,B` chooses some."""
    ids = flask.request.args.get("ids")
    chosen = None if ids is None else [part for part in ids.split(",") if part]
    return answer(actors.actor_table(session.compiled, chosen))


@routes.get("/logical/actors/<actor_id>")
def actor_detail(session: OpenSession, actor_id: str) -> flask.Response:
    """One actor; null when there is none, as in Ray."""
    return answer(actors.actor_detail(session.compiled, actor_id))
