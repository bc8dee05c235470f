"""Which requests the dashboard's pages and the command line send: what the fidelity test asks.

The first round needs no knowledge; the second is made from the ids in the first round's
answers. The map of pages to calls was read from the front end of Ray 2.55.1, the command
line's calls were recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

CLI = "timeout=24&detail={detail}&exclude_driver=True&server_timeout_multiplier=0.8"
STATE_RESOURCES = (
    "tasks", "actors", "jobs", "nodes", "workers", "objects", "placement_groups", "runtime_envs",
)  # fmt: skip
LOG_SAMPLES_PER_NODE = 60
ENTITY_SAMPLES = 40


@dataclass(frozen=True, slots=True)
class Request:
    """One question: `endpoint` is its name in rules and tables, `path` what is asked."""

    endpoint: str
    path: str


SERVE = "/api/serve/applications/"
TRAIN = "/api/train/v2/runs/v1"
JOBS = Request("/api/jobs/", "/api/jobs/")


def _same(*paths: str) -> Iterator[Request]:
    for path in paths:
        yield Request(path, path)


def first_round() -> list[Request]:
    """Everything that can be asked without an id."""
    asked = list(
        _same(
            "/timezone",
            "/api/authentication_mode",
            "/api/version",
            "/api/ray/version",
            "/usage_stats_enabled",
            "/cluster_id",
            "/api/component_activities",
            "/api/v0/cluster_metadata",
            "/api/grafana_health",
            "/api/prometheus_health",
            "/api/cluster_status",
            "/api/cluster_status?format=1",
            "/nodes?view=summary",
            "/nodes?view=hostNameList",
            "/api/jobs/",
            "/logical/actors",
            "/events",
        )
    )
    for resource in STATE_RESOURCES:
        base = f"/api/v0/{resource}"
        asked.append(Request(f"{base} detail", f"{base}?detail=1&limit=10000"))
        asked.append(Request(f"{base} plain", f"{base}?detail=0&limit=10000"))
    for resource in ("tasks", "actors", "objects"):
        base = f"/api/v0/{resource}/summarize"
        asked.append(Request(base, f"{base}?timeout=30"))
    asked.append(Request("/api/v0/tasks/timeline", "/api/v0/tasks/timeline"))
    return asked


def _filter(key: str, value: str, predicate: str = "=") -> str:
    return (
        f"filter_keys={key}&filter_predicates={quote(predicate, safe='')}"
        f"&filter_values={quote(value, safe='')}"
    )


def _rows(answers: Mapping[str, Any], endpoint: str) -> list[dict[str, Any]]:
    """The rows of a state API answer."""
    rows: list[dict[str, Any]] = answers[endpoint]["data"]["result"]["result"]
    return rows


def _spread(rows: list[dict[str, Any]], key: str, count: int) -> list[dict[str, Any]]:
    """Up to `count` rows in which every value of `key` occurs before any occurs twice often."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(str(row.get(key)), []).append(row)
    chosen: list[dict[str, Any]] = []
    while groups and len(chosen) < count:
        for value in list(groups):
            chosen.append(groups[value].pop(0))
            if not groups[value]:
                del groups[value]
    return chosen[:count]


def _jobs(answers: Mapping[str, Any]) -> Iterator[Request]:
    for job in answers["/api/jobs/"]:
        if job.get("submission_id"):
            yield Request("/api/jobs/{id}", f"/api/jobs/{job['submission_id']}")
            yield Request("/api/jobs/{id}/logs", f"/api/jobs/{job['submission_id']}/logs")
        job_id = job.get("job_id")
        if not job_id:
            continue
        by_job = _filter("job_id", job_id)
        tasks = "/api/v0/tasks"
        yield Request("/api/jobs/{id}", f"/api/jobs/{job_id}")
        yield Request(f"{tasks} of job", f"{tasks}?detail=1&limit=10000&{by_job}")
        yield Request(f"{tasks}/summarize of job", f"{tasks}/summarize?{by_job}")
        yield Request(
            f"{tasks}/summarize by lineage", f"{tasks}/summarize?{by_job}&summary_by=lineage"
        )
        yield Request(f"{tasks}/timeline of job", f"{tasks}/timeline?download=1&job_id={job_id}")
        yield Request("/events of job", f"/events?job_id={job_id}")


def _tasks(answers: Mapping[str, Any]) -> Iterator[Request]:
    rows = _rows(answers, "/api/v0/tasks detail")
    base = "/api/v0/tasks"
    for state in sorted({str(row["state"]) for row in rows}):
        cli = CLI.format(detail="True")
        # The command's own limit of 100 would leave Ray any hundred.
        query = f"limit=10000&{cli}&{_filter('state', state)}"
        yield Request(f"{base} by state", f"{base}?{query}")
    for name in sorted({str(row["name"]) for row in rows})[:8]:
        yield Request(f"{base} by name", f"{base}?detail=1&limit=10000&{_filter('name', name)}")
    yield Request(
        f"{base} not finished",
        f"{base}?detail=1&limit=10000&{_filter('state', 'FINISHED', '!=')}",
    )
    attempts = Counter(row["task_id"] for row in rows)
    for row in _spread(rows, "name", ENTITY_SAMPLES):
        by_id = _filter("task_id", row["task_id"])
        # Of several attempts the live dashboard gives any one when the limit is 1.
        query = "detail=1&limit=1" if attempts[row["task_id"]] == 1 else CLI.format(detail="True")
        yield Request(f"{base} by id", f"{base}?{query}&{by_id}")
        for suffix in ("out", "err"):
            yield Request(
                "/api/v0/logs/file of task",
                f"/api/v0/logs/file?task_id={row['task_id']}&suffix={suffix}"
                f"&attempt_number={row['attempt_number']}&lines=50000&filter_ansi_code=true",
            )


def _actors(answers: Mapping[str, Any]) -> Iterator[Request]:
    rows = _rows(answers, "/api/v0/actors detail")
    for row in _spread(rows, "state", ENTITY_SAMPLES):
        actor_id = row["actor_id"]
        yield Request("/logical/actors/{id}", f"/logical/actors/{actor_id}")
        yield Request(
            "/api/v0/actors by id",
            f"/api/v0/actors?{CLI.format(detail='True')}&{_filter('actor_id', actor_id)}",
        )
        for suffix in ("out", "err"):
            yield Request(
                "/api/v0/logs/file of actor",
                f"/api/v0/logs/file?actor_id={actor_id}&suffix={suffix}&lines=50000",
            )
        if row.get("pid") and row.get("node_id"):
            yield Request(
                "/api/v0/logs/file of pid",
                f"/api/v0/logs/file?node_id={row['node_id']}&pid={row['pid']}&suffix=out"
                "&lines=50000",
            )


def _nodes(answers: Mapping[str, Any]) -> Iterator[Request]:
    for row in _rows(answers, "/api/v0/nodes detail"):
        node_id = row["node_id"]
        yield Request("/nodes/{id}", f"/nodes/{node_id}")
        yield Request("/api/v0/logs", f"/api/v0/logs?node_id={node_id}")
        for glob in ("events/*", "worker*"):
            path = f"/api/v0/logs?node_id={node_id}&glob={quote(glob, safe='*')}"
            yield Request("/api/v0/logs by glob", path)


def second_round(answers: Mapping[str, Any]) -> list[Request]:
    """What the first round's answers make possible, in a fixed order."""
    return [*_jobs(answers), *_tasks(answers), *_actors(answers), *_nodes(answers)]


def third_round(listings: Mapping[str, Any]) -> list[Request]:
    """Log files by name, from the listings of each node."""
    asked: list[Request] = []
    for path, body in listings.items():
        node_id = path.rpartition("node_id=")[2]
        files = sorted(
            name
            for names in body["data"]["result"].values()
            for name in names
            if not name.endswith("/")
        )
        for name in _sampled(files, LOG_SAMPLES_PER_NODE):
            where = f"node_id={node_id}&filename={quote(name, safe='')}"
            asked.append(Request("/api/v0/logs/file", f"/api/v0/logs/file?{where}&lines=-1"))
    return asked


def disturbing_round(jobs: list[dict[str, Any]]) -> list[Request]:
    """Serve's and Train's answers start drivers in a live cluster, Data's an actor: they come first."""
    data = [
        Request("/api/data/datasets/{job}", f"/api/data/datasets/{job['job_id']}")
        for job in jobs
        if job.get("job_id")
    ]
    return [*data, *_same(SERVE, TRAIN)]


def library_logs(disturbing: Mapping[str, Any]) -> list[Request]:
    """The logs that the answers about Serve and Train name, as Serve's pages ask for them."""
    found: dict[str, None] = {}
    for answer in (disturbing.get(SERVE), disturbing.get(TRAIN)):
        for part in _parts_with_logs(answer):
            name = str(part["log_file_path"]).rpartition("/logs/")[2].removeprefix("/")
            where = f"node_id={part['node_id']}&filename={quote(name, safe='')}"
            found[f"/api/v0/logs/file?{where}&lines=50000&filter_ansi_code=true"] = None
    return [Request("/api/v0/logs/file of library", path) for path in found]


def _parts_with_logs(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if value.get("log_file_path") and value.get("node_id"):
            yield value
        for below in value.values():
            yield from _parts_with_logs(below)
    elif isinstance(value, list):
        for below in value:
            yield from _parts_with_logs(below)


def _sampled(names: Iterable[str], count: int) -> list[str]:
    """At most `count` names, evenly spread over the sorted list."""
    ordered = list(names)
    if len(ordered) <= count:
        return ordered
    return [ordered[index * len(ordered) // count] for index in range(count)]
