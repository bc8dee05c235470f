"""Names of the dashboard answers that are kept: what the collector asks and the server shows.

A kept answer's name is its path with query, exactly as Ray's front end or state API asks
for it (Ray 2.53 to 2.60). Both sides take names from here, so a name cannot drift.
"""

from __future__ import annotations

from types import MappingProxyType

JOBS = "/api/jobs/"
PLACEMENT_GROUPS = "/api/v0/placement_groups?detail=1&limit=10000"
ACTOR_TABLE = "/logical/actors"
"""Ray's own table of actors, with what processes and resources they have."""
ACTORS = "/api/v0/actors?detail=1&limit=10000"
NODE_SUMMARY = "/nodes?view=summary"
NODES = "/api/v0/nodes?detail=1&limit=10000"
WORKERS = "/api/v0/workers?detail=1&limit=10000"
OBJECTS = "/api/v0/objects?detail=1&limit=10000"
RUNTIME_ENVS = "/api/v0/runtime_envs?detail=1&limit=10000"
CLUSTER_STATUS = "/api/cluster_status"
CLUSTER_STATUS_TEXT = "/api/cluster_status?format=1"
COMPONENT_ACTIVITIES = "/api/component_activities"
SERVE = "/api/serve/applications/"
TRAIN = "/api/train/v2/runs/v1"
CLUSTER_METADATA = "/api/v0/cluster_metadata"
VERSION = "/api/version"
CLUSTER_ID = "/cluster_id"
TIMEZONE = "/timezone"
USAGE_STATS = "/usage_stats_enabled"
GRAFANA_HEALTH = "/api/grafana_health"
PROMETHEUS_HEALTH = "/api/prometheus_health"

NODE_PREFIX = "/nodes/"
DATASETS_PREFIX = "/api/data/datasets/"

ITEM_ID = MappingProxyType(
    {
        ACTORS: "actor_id",
        NODES: "node_id",
        WORKERS: "worker_id",
        PLACEMENT_GROUPS: "placement_group_id",
    }
)
"""State API lists whose items have an id of their own, and the field that holds it.

Of objects and runtime environments ids repeat or are none.
"""


def node_detail(node_id: str) -> str:
    """The answer about one node, with its workers and hardware."""
    return f"{NODE_PREFIX}{node_id}"


def datasets(job_id: str) -> str:
    """The answer about the datasets of one job (its id, not its submission id)."""
    return f"{DATASETS_PREFIX}{job_id}"
