"""Small facts of a session that the UI and the CLI ask for first: version, id, time zone."""

from __future__ import annotations

import flask

from historyserver.api.answers import answer
from historyserver.api.routing import session_routes
from historyserver.compiled.envelopes import listing, success
from historyserver.queries import snapshots
from historyserver.sessions import OpenSession
from storage import endpoints

routes = session_routes("facts")

JOB_API_VERSION = "4"
"""What the job client of Ray 2.x asks `/api/version` for."""


@routes.get("/timezone")
def timezone(session: OpenSession) -> flask.Response:
    """The cluster's time zone; empty when it was not stored (the UI then shows the reader's)."""
    stored = snapshots.whole(session.compiled, endpoints.TIMEZONE)
    return answer(stored or {"offset": "", "value": ""})


@routes.get("/api/version")
@routes.get("/api/ray/version")
def version(session: OpenSession) -> flask.Response:
    """Ray's version of that session."""
    compiled = session.compiled
    stored = snapshots.whole(compiled, endpoints.VERSION)
    return answer(
        stored
        or {
            "version": JOB_API_VERSION,
            "ray_version": compiled.meta.ray_version,
            "ray_commit": "",
            "session_name": compiled.meta.session,
        }
    )


@routes.get("/cluster_id")
def cluster_id(session: OpenSession) -> flask.Response:
    """The id that Ray gave the cluster; empty when it was not stored."""
    stored = snapshots.whole(session.compiled, endpoints.CLUSTER_ID)
    return answer(stored or success("Fetched cluster id", {"clusterId": ""}))


@routes.get("/usage_stats_enabled")
def usage_stats_enabled(session: OpenSession) -> flask.Response:
    """Whether the cluster reported usage statistics; this server never does."""
    stored = snapshots.whole(session.compiled, endpoints.USAGE_STATS)
    nothing = {"usageStatsEnabled": False, "usageStatsPromptEnabled": False}
    return answer(stored or success("Fetched usage stats enabled", nothing))


@routes.get("/api/grafana_health")
def grafana_health(_session: OpenSession) -> flask.Response:
    """Metrics are not kept: `DISABLED` makes the UI hide what would need Grafana."""
    return answer(success("Grafana disabled", {"grafanaHost": "DISABLED"}))


@routes.get("/api/prometheus_health")
def prometheus_health(_session: OpenSession) -> flask.Response:
    """Metrics are not kept; with status 200, so that a browser's console stays clean."""
    message = "prometheus is not available for stored sessions."
    return answer({"result": False, "msg": message, "data": {"reason": "metrics are not kept"}})


@routes.get("/api/v0/platform_events")
def platform_events(_session: OpenSession) -> flask.Response:
    """Kubernetes events that Ray 2.60 and later can show; none are kept."""
    nothing = listing([], total=0, filtered=0)
    nothing["data"]["events"] = []
    return answer(nothing)


@routes.get("/api/profiling_enabled")
def profiling_enabled(_session: OpenSession) -> flask.Response:
    """Profiling needs running processes (asked by the UI of Ray 2.56 and later)."""
    return answer(success("", {"profilingEnabled": False, "enabled": False}))


@routes.get("/api/v0/runtime_env_redaction")
def runtime_env_redaction(_session: OpenSession) -> flask.Response:
    """Runtime environments are shown as they were stored (asked by the UI of Ray 2.60)."""
    return answer(success("", {"redactionEnabled": False}))
