"""Routes about the cluster as a whole."""

from __future__ import annotations

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.queries import cluster

blueprint = flask.Blueprint("cluster", __name__)


@blueprint.get("/api/cluster_status")
def cluster_status() -> flask.Response:
    """The autoscaler's last report; with `format=1` as text."""
    session = current_session().compiled
    if flask.request.args.get("format", "0") == "1":
        return answer(cluster.cluster_status_text(session))
    return answer(cluster.cluster_status(session))


@blueprint.get("/api/v0/cluster_metadata")
def cluster_metadata() -> flask.Response:
    """The versions of Ray and Python."""
    return answer(cluster.cluster_metadata(current_session().compiled))


@blueprint.get("/api/component_activities")
def component_activities() -> flask.Response:
    """Whether drivers were active when last asked."""
    return answer(cluster.component_activities(current_session().compiled))
