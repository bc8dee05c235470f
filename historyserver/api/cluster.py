"""Routes about the cluster as a whole."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.routing import session_routes
from historyserver.queries import cluster
from historyserver.sessions import OpenSession

routes = session_routes("cluster")


@routes.get("/api/cluster_status")
def cluster_status(session: OpenSession) -> flask.Response:
    """The autoscaler's last report; with `format=1` as text."""
    compiled = session.compiled
    if flask.request.args.get("format", "0") == "1":
        return answer(cluster.cluster_status_text(compiled))
    return answer(cluster.cluster_status(compiled))


@routes.get("/api/v0/cluster_metadata")
def cluster_metadata(session: OpenSession) -> flask.Response:
    """The versions of Ray and Python."""
    return answer(cluster.cluster_metadata(session.compiled))


@routes.get("/api/component_activities")
def component_activities(session: OpenSession) -> flask.Response:
    """Whether drivers were active when last asked."""
    return answer(cluster.component_activities(session.compiled))
