"""Which answers of Ray's dashboard are kept: those that events and logs cannot rebuild.

Costs are of one call on a small cluster with 10,000 tasks (Ray 2.55.1). Tasks are never
asked for: a list of 10,000 takes the dashboard 3.6 s, and events tell all of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from storage import endpoints as names


class Use(Enum):
    """When an endpoint is worth asking. Serve's and Data's start drivers of their own."""

    ALWAYS = "always"
    SERVE = "serve"
    """An actor named SERVE_CONTROLLER_ACTOR lives."""
    TRAIN = "train"
    """Train's state actor lives."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One kept endpoint."""

    name: str
    """Path with query, exactly as the dashboard's front end asks."""
    every_s: float
    use: Use = Use.ALWAYS
    once: bool = False
    """The answer never changes within a session."""
    kept_by_kuberay: bool = False
    history: bool = False
    """The answer lists things that never vanish in a session, so an empty one after a full
    one is a fault."""
    items: tuple[str, ...] = field(default=())
    """Where in the answer the things are that it lists."""
    timeout_s: float = 10.0
    final: bool = True
    """Asked once more at the end; in the order of the table."""
    any_text: bool = False
    """An answer that is no JSON is kept too."""


_STATE_API = ("data", "result", "result")

ENDPOINTS: tuple[Endpoint, ...] = (
    # Submission jobs have no events at all (4 ms). Often, as a cluster may be deleted just
    # after its job ended.
    Endpoint(names.JOBS, 2, history=True),
    # No events either, 3 ms.
    Endpoint(names.PLACEMENT_GROUPS, 5, kept_by_kuberay=True, history=True, items=_STATE_API),
    # Executed tasks, resources, memory and processes of actors, 5 ms.
    Endpoint(names.ACTOR_TABLE, 5, history=True, items=("data", "actors")),
    # Hardware, disks, memory, workers of all nodes, 12 ms.
    Endpoint(names.NODE_SUMMARY, 5, history=True, items=("data", "summary")),
    Endpoint(names.ACTORS, 5, history=True, items=_STATE_API),
    Endpoint(names.NODES, 5, history=True, items=_STATE_API),
    Endpoint(names.WORKERS, 10, history=True, items=_STATE_API),
    Endpoint(names.OBJECTS, 10, items=_STATE_API),
    Endpoint(names.RUNTIME_ENVS, 10, items=_STATE_API),
    # Autoscaler and pending demands, 2 to 15 ms.
    Endpoint(names.CLUSTER_STATUS, 10),
    Endpoint(names.CLUSTER_STATUS_TEXT, 10),
    Endpoint(names.COMPONENT_ACTIVITIES, 10),
    # 600 to 800 ms, and starts a driver: only where Serve is used.
    Endpoint(
        names.SERVE, 10, use=Use.SERVE, kept_by_kuberay=True, items=("applications",), timeout_s=30
    ),
    # 9 ms, 830 the first time.
    Endpoint(names.TRAIN, 10, use=Use.TRAIN, items=("train_runs",), timeout_s=30),
    Endpoint(names.CLUSTER_METADATA, 2, once=True, kept_by_kuberay=True, final=False),
    Endpoint(names.VERSION, 2, once=True, final=False),
    Endpoint(names.TIMEZONE, 2, once=True, kept_by_kuberay=True, final=False),
    Endpoint(names.USAGE_STATS, 10, once=True, final=False),
    Endpoint(names.GRAFANA_HEALTH, 60, final=False),
    Endpoint(names.PROMETHEUS_HEALTH, 60, final=False),
)

_NODE_DETAIL = Endpoint(names.NODE_PREFIX, 10)
# 420 to 560 ms for each job; starts an actor handle in the dashboard.
_DATASETS = Endpoint(
    names.DATASETS_PREFIX, 10, kept_by_kuberay=True, history=True, items=("datasets",), timeout_s=30
)
_ADDITIONAL = Endpoint("/", 10, kept_by_kuberay=True, timeout_s=30, any_text=True)
_NODES_ASKED_OFTEN = 6
_LONGEST_NODE_DETAIL_S = 60.0


def node_detail(node_id: str, *, nodes: int) -> Endpoint:
    """The page of one node (5 ms, 40 to 126 kB): seldomer the more there are, up to 60 s."""
    every_s = min(_LONGEST_NODE_DETAIL_S, 10.0 * max(1, nodes / _NODES_ASKED_OFTEN))
    return replace(_NODE_DETAIL, name=names.node_detail(node_id), every_s=every_s)


def datasets(job_id: str) -> Endpoint:
    """The datasets of one job."""
    return replace(_DATASETS, name=names.datasets(job_id))


def endpoints_for(seen: Seen, additional: Sequence[str] = ()) -> Iterator[Endpoint]:
    """All that is worth asking, given what is known of the cluster; most valuable first.

    Args:
        seen: what is known.
        additional: names that the user wants besides, whatever is known.

    """
    yielded = set()
    for endpoint in _known_endpoints(seen):
        yielded.add(endpoint.name)
        yield endpoint
    for name in additional:
        if name not in yielded:
            yield replace(_ADDITIONAL, name=name)


def _known_endpoints(seen: Seen) -> Iterator[Endpoint]:
    uses = {Use.ALWAYS}
    if seen.serve:
        uses.add(Use.SERVE)
    if seen.train:
        uses.add(Use.TRAIN)
    yield from (endpoint for endpoint in ENDPOINTS if endpoint.use in uses)
    for node_id in seen.nodes:
        yield node_detail(node_id, nodes=len(seen.nodes))
    if seen.data:
        yield from (datasets(job_id) for job_id in seen.dataset_jobs)


def is_kept_by_kuberay(name: str, additional: Collection[str] = ()) -> bool:
    """Whether KubeRay's collector stores this endpoint too; it does what it is told to."""
    if name.startswith(names.DATASETS_PREFIX) or name in additional:
        return True
    return any(endpoint.kept_by_kuberay for endpoint in ENDPOINTS if endpoint.name == name)


@dataclass(slots=True)
class Seen:
    """What earlier answers tell of the cluster."""

    serve: bool = False
    train: bool = False
    data: bool = False
    nodes: tuple[str, ...] = ()
    dataset_jobs: tuple[str, ...] = ()
    """Jobs whose datasets can still change, or were not kept since they ended."""
    ended_jobs: frozenset[str] = frozenset()
