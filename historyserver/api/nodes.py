"""Node routes: the dashboard's views and the State API."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.api.arguments import request_arguments
from historyserver.api.errors import BadRequestError
from historyserver.queries import nodes
from historyserver.queries.options import list_options

blueprint = flask.Blueprint("nodes", __name__)


@blueprint.get("/nodes", strict_slashes=False)
def all_nodes() -> flask.Response:
    """The nodes' summary (also when no view is named, as KubeRay answers), or the host names."""
    view = flask.request.args.get("view", "summary")
    session = current_session().compiled
    if view.lower() == "summary":
        return answer(nodes.node_summary(session))
    if view.lower() == "hostnamelist":
        return answer(nodes.host_names(session))
    raise BadRequestError(f"Unknown view {view[:80]}; known are summary and hostNameList.")


@blueprint.get("/nodes/<node_id>")
def node_detail(node_id: str) -> flask.Response:
    """One node with its actors and workers."""
    return answer(nodes.node_detail(current_session().compiled, node_id))


@blueprint.get("/api/v0/nodes")
def list_nodes() -> flask.Response:
    """Nodes, filtered."""
    options = list_options(request_arguments())
    return answer(nodes.list_nodes(current_session().compiled, options))
