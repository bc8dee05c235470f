"""All areas of the API, in the order in which an app registers them."""

from __future__ import annotations

from typing import Any

from historyserver.api import (
    actors,
    cluster,
    clusters,
    data,
    events,
    facts,
    jobs,
    logs,
    nodes,
    not_kept,
    objects,
    placement_groups,
    probes,
    serve,
    tasks,
    train,
    workers,
)
from historyserver.api.routing import Routes
from historyserver.sessions import OpenSession

OF_SESSIONS: tuple[Routes[OpenSession], ...] = (
    tasks.routes,
    actors.routes,
    jobs.routes,
    nodes.routes,
    placement_groups.routes,
    workers.routes,
    objects.routes,
    cluster.routes,
    logs.routes,
    events.routes,
    serve.routes,
    data.routes,
    train.routes,
    facts.routes,
)
"""Their answers depend on the compiled session alone: they have an ETag and are kept in memory."""

AREAS: tuple[Routes[Any], ...] = (*OF_SESSIONS, probes.routes, clusters.routes, not_kept.routes)

NAMES = frozenset(area.name for area in AREAS)
NAMES_OF_SESSIONS = frozenset(area.name for area in OF_SESSIONS)
