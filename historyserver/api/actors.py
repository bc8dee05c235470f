"""Actor routes: the State API and the dashboard's actor table."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.api.arguments import request_arguments
from historyserver.queries import actors
from historyserver.queries.options import filters_of, list_options

blueprint = flask.Blueprint("actors", __name__)


@blueprint.get("/api/v0/actors")
def list_actors() -> flask.Response:
    """Actors, filtered."""
    options = list_options(request_arguments())
    return answer(actors.list_actors(current_session().compiled, options))


@blueprint.get("/api/v0/actors/summarize")
def summarize_actors() -> flask.Response:
    """Counts of actors by class and state."""
    filters = filters_of(request_arguments())
    return answer(actors.summarize_actors(current_session().compiled, filters))


@blueprint.get("/logical/actors")
def actor_table() -> flask.Response:
    """Every actor as the dashboard shows it; `ids=A,B` chooses some."""
    ids = flask.request.args.get("ids")
    chosen = None if ids is None else [part for part in ids.split(",") if part]
    return answer(actors.actor_table(current_session().compiled, chosen))


@blueprint.get("/logical/actors/<actor_id>")
def actor_detail(actor_id: str) -> flask.Response:
    """One actor; null when there is none, as in Ray."""
    return answer(actors.actor_detail(current_session().compiled, actor_id))
