"""The differences that are known, each with the reason why the value is not the same.

Order matters: the first rule that explains a difference gives its reason.
"""

from __future__ import annotations

from tests.fidelity.comparing import Rule, Verdict

DIFFERS = (Verdict.DIFFERS,)
MISSING = (Verdict.MISSING,)
EXTRA = (Verdict.EXTRA,)

SAMPLED = "sampled earlier: a moving value of the collector's last snapshot before the end"
ENDED = "the session has ended: what was alive or open is shown closed, with a message"
COUNTED = "follows from the rows: states closed at the end, and attempts that Ray forgot"
EMPTY_LOG = "better: Ray 2.55 answers 500 for an empty log or a task that never ran"
NO_METRICS = "Grafana and Prometheus belong to the live cluster"
FOLDERS = "object storage has no empty folders"
PLACED = "better: Ray's own list lacks node and worker of these tasks; the actor's events tell them"
IDLE_WORKER = (
    "better: when an idle worker exits before its last task's FINISHED has reached it, Ray's GCS "
    "marks that task failed, and goes on saying so"
)
RESTARTS = "better: Ray forgets the creation attempts of a restarted actor"
LATER = "written or removed by Ray between the live answer and the end"
REWRITTEN = "a file that Ray rewrites every ten seconds"
SERVE = "the live dashboard tells defaults when Serve is not used; nothing is stored then"

# The identity of a later attempt of an actor's creation task: its id begins with 16 times f.
RESTARTED = r'\["f{16}[0-9a-f]+", [1-9]'

OPEN_TASKS = (
    "PENDING_ARGS_AVAIL",
    "PENDING_NODE_ASSIGNMENT",
    "PENDING_OBJ_STORE_MEM_AVAIL",
    "PENDING_ARGS_FETCH",
    "SUBMITTED_TO_WORKER",
    "RUNNING",
    "PENDING_ACTOR_TASK_ARGS_FETCH",
    "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY",
)
OPEN_ACTORS = ("ALIVE", "PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING")

_NODE_SAMPLES = (
    "now", "cpu", "cpus.*", "mem.*", "shm", "gpus*", "tpus*", "loadAvg.*", "disk.*", "diskIo.*",
    "diskIoSpeed.*", "network.*", "networkSpeed.*", "agent.*", "gcs.*", "workers.*", "bootTime",
    "raylet.storeStats.*", "raylet.objectStore*", "raylet.numWorkers", "raylet.coreWorkersStats*",
    "raylet.cpuPercent", "raylet.cpuTimes.*", "raylet.memory*", "raylet.numFds", "raylet.workers*",
    "status", "cmdline.*",
)  # fmt: skip


def _sampled_nodes() -> list[Rule]:
    """Hardware figures of nodes, in the list and in the detail."""
    return [
        Rule(endpoint, f"{base}.{field}", SAMPLED)
        for endpoint, base in (
            ("/nodes?view=summary", "data.summary.*"),
            ("/nodes/{id}", "data.detail"),
        )
        for field in _NODE_SAMPLES
    ]


def _actors() -> list[Rule]:
    """The dashboard's actors: in the list, in the detail, and in a node's detail."""
    bases = (
        ("/logical/actors", "data.actors.*"),
        ("/logical/actors/{id}", "data.detail"),
        ("/nodes/{id}", "data.detail.actors.*"),
    )
    sampled = (
        "mem*", "gpus*", "processStats*", "num*", "used*", "taskQueueLength", "objectRefs*",
        "objectsTotal", "usedResources*",
    )  # fmt: skip
    rules = []
    for endpoint, base in bases:
        rules.append(Rule(endpoint, f"{base}.state", ENDED, live=OPEN_ACTORS))
        rules.append(Rule(endpoint, f"{base}.endTime", ENDED, live=(0,)))
        rules.append(Rule(endpoint, f"{base}.exitDetail", ENDED, live=("-", "", None)))
        rules += [Rule(endpoint, f"{base}.{field}", SAMPLED) for field in sampled]
    return rules


def _state_api() -> list[Rule]:
    """Rows that the end closed."""
    rows = "data.result.result.*"
    tasks, actors, workers, nodes = (
        f"/api/v0/{resource} *" for resource in ("tasks", "actors", "workers", "nodes")
    )
    return [
        Rule(tasks, f"{rows}.state", IDLE_WORKER, live=("FAILED",), ours=("FINISHED",)),
        Rule(tasks, f"{rows}.error_type", IDLE_WORKER, live=("WORKER_DIED",), ours=(None,)),
        Rule(tasks, f"{rows}.error_message", IDLE_WORKER, ours=(None,), verdicts=DIFFERS),
        Rule(tasks, f"{rows}.events.*", IDLE_WORKER, verdicts=MISSING, place=r"FAILED"),
        Rule("/api/v0/tasks not finished", f"{rows}.*", IDLE_WORKER, verdicts=MISSING),
        Rule(tasks, f"{rows}.state", ENDED, live=OPEN_TASKS),
        Rule(tasks, f"{rows}.end_time_ms", ENDED, live=(None,)),
        Rule(tasks, f"{rows}.error_*", ENDED, live=(None,)),
        Rule(tasks, f"{rows}.node_id", PLACED, live=(None,)),
        Rule(tasks, f"{rows}.worker_id", PLACED, live=(None,)),
        Rule(actors, f"{rows}.state", ENDED, live=OPEN_ACTORS),
        Rule(actors, f"{rows}.death_cause*", ENDED, live=(None,)),
        Rule(workers, f"{rows}.is_alive", ENDED, live=(True,)),
        Rule(workers, f"{rows}.end_time_ms", ENDED, live=(0, None)),
        Rule(workers, f"{rows}.exit_*", ENDED, live=(None,)),
        Rule(nodes, f"{rows}.state", ENDED, live=("ALIVE",)),
        Rule(nodes, f"{rows}.state_message", ENDED, live=(None,)),
        Rule(nodes, f"{rows}.end_time_ms", ENDED, live=(0, None)),
    ]


def _counts() -> list[Rule]:
    """Numbers that follow from the rows."""
    totals = "data.result.result.node_id_to_summary.cluster"
    return [
        Rule("/api/v0/*", "data.result.total", COUNTED, verdicts=DIFFERS),
        Rule("/api/v0/*", "data.result.num_*", COUNTED, verdicts=DIFFERS),
        Rule("/api/v0/*/summarize*", f"{totals}*.state_counts.*", COUNTED),
        Rule("/api/v0/*/summarize*", f"{totals}.total_*", COUNTED, verdicts=DIFFERS),
    ]


RULES: tuple[Rule, ...] = (
    Rule("/api/grafana_health", "*", NO_METRICS),
    Rule("/api/prometheus_health", "*", NO_METRICS),
    Rule("/api/component_activities", "*.timestamp", SAMPLED),
    Rule("/api/cluster_status*", "data.autoscalingStatus", SAMPLED),
    Rule("/api/cluster_status*", "data.clusterStatus", SAMPLED),
    Rule("/api/cluster_status*", "data.clusterStatus.*Time", SAMPLED),
    Rule("/api/cluster_status*", "data.clusterStatus.time", SAMPLED),
    Rule("/nodes?view=summary", "data.summary.*.raylet.stateMessage", ENDED, live=(None, "")),
    Rule("/nodes/{id}", "data.detail.raylet.stateMessage", ENDED, live=(None, "")),
    *_sampled_nodes(),
    *_actors(),
    *_state_api(),
    *_counts(),
    Rule("/api/v0/tasks*", "data.result.result*", RESTARTS, verdicts=EXTRA, place=RESTARTED),
    Rule("/api/v0/tasks/summarize*", "data.result.result*", RESTARTS, verdicts=EXTRA),
    Rule("/api/v0/tasks/timeline*", "*", RESTARTS, verdicts=EXTRA),
    Rule("/api/v0/tasks by state", "data.result.result*", ENDED, verdicts=EXTRA + MISSING),
    Rule("/api/v0/logs/file*", "status", EMPTY_LOG, live=(500,)),
    Rule("/api/v0/logs/file*", "*", EMPTY_LOG, verdicts=EXTRA),
    Rule("/api/v0/logs/file", "text", REWRITTEN, verdicts=DIFFERS),
    Rule("/api/v0/logs*", "data.result.*", FOLDERS, verdicts=MISSING),
    Rule("/api/v0/logs*", "data.result.*", LATER, verdicts=EXTRA),
    Rule("/api/serve/applications/", "*", SERVE, verdicts=MISSING),
)
