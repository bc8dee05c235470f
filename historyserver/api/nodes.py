"""Node routes: the dashboard's views and the State API."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.errors import BadRequestError
from historyserver.api.routing import request_arguments, session_routes
from historyserver.queries import nodes
from historyserver.queries.options import list_options
from historyserver.sessions import OpenSession

routes = session_routes("nodes")


@routes.get("/nodes")
def all_nodes(session: OpenSession) -> flask.Response:
    """The nodes' summary (also when no view is named, as KubeRay answers), or the host names."""
    view = flask.request.args.get("view", "summary")
    compiled = session.compiled
    if view.lower() == "summary":
        return answer(nodes.node_summary(compiled))
    if view.lower() == "hostnamelist":
        return answer(nodes.host_names(compiled))
    raise BadRequestError(f"Unknown view {view[:80]}; known are summary and hostNameList.")


@routes.get("/nodes/<node_id>")
def node_detail(session: OpenSession, node_id: str) -> flask.Response:
    """One node with its actors and workers."""
    return answer(nodes.node_detail(session.compiled, node_id))


@routes.get("/api/v0/nodes")
def list_nodes(session: OpenSession) -> flask.Response:
    """Nodes, filtered."""
    options = list_options(request_arguments())
    return answer(nodes.list_nodes(session.compiled, options))
