"""Small facts of a session that the UI and the CLI ask for first: version, id, time zone."""

from __future__ import annotations

from typing import Any

import flask

from historyserver.api import current_session
from historyserver.api.answers import answer
from historyserver.queries import snapshots
from storage import endpoints

blueprint = flask.Blueprint("facts", __name__)

JOB_API_VERSION = "4"
"""What the job client of Ray 2.x asks `/api/version` for."""


@blueprint.get("/timezone")
def timezone() -> flask.Response:
    """The cluster's time zone; empty when it was not stored (the UI then shows the reader's)."""
    stored = snapshots.whole(current_session().compiled, endpoints.TIMEZONE)
    return answer(stored or {"offset": "", "value": ""})


@blueprint.get("/api/version")
@blueprint.get("/api/ray/version")
def version() -> flask.Response:
    """Ray's version of that session."""
    compiled = current_session().compiled
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


@blueprint.get("/cluster_id")
def cluster_id() -> flask.Response:
    """The id that Ray gave the cluster; empty when it was not stored."""
    stored = snapshots.whole(current_session().compiled, endpoints.CLUSTER_ID)
    return answer(stored or _success("Fetched cluster id", {"clusterId": ""}))


@blueprint.get("/usage_stats_enabled")
def usage_stats_enabled() -> flask.Response:
    """Whether the cluster reported usage statistics; this server never does."""
    stored = snapshots.whole(current_session().compiled, endpoints.USAGE_STATS)
    nothing = {"usageStatsEnabled": False, "usageStatsPromptEnabled": False}
    return answer(stored or _success("Fetched usage stats enabled", nothing))


@blueprint.get("/api/grafana_health")
def grafana_health() -> flask.Response:
    """Metrics are not kept: `DISABLED` makes the UI hide what would need Grafana."""
    current_session()
    return answer(_success("Grafana disabled", {"grafanaHost": "DISABLED"}))


@blueprint.get("/api/prometheus_health")
def prometheus_health() -> flask.Response:
    """Metrics are not kept; with status 200, so that a browser's console stays clean."""
    current_session()
    message = "prometheus is not available for stored sessions."
    return answer({"result": False, "msg": message, "data": {"reason": "metrics are not kept"}})


@blueprint.get("/api/v0/platform_events")
def platform_events() -> flask.Response:
    """Kubernetes events that Ray 2.60 and later can show; none are kept."""
    current_session()
    rows: dict[str, Any] = {
        "total": 0,
        "num_after_truncation": 0,
        "num_filtered": 0,
        "result": [],
        "partial_failure_warning": "",
        "warnings": None,
    }
    return answer(_success("", {"result": rows, "events": []}))


@blueprint.get("/api/profiling_enabled")
def profiling_enabled() -> flask.Response:
    """Profiling needs running processes (asked by the UI of Ray 2.56 and later)."""
    return answer(_success("", {"profilingEnabled": False, "enabled": False}))


@blueprint.get("/api/v0/runtime_env_redaction")
def runtime_env_redaction() -> flask.Response:
    """Whether secrets of runtime environments are hidden (asked by the UI of Ray 2.60)."""
    return answer(_success("", {"redactionEnabled": True}))


def _success(message: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"result": True, "msg": message, "data": data}
