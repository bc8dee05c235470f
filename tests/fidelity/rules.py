"""The differences that are known, each with the reason why the value is not the same.

Order matters: the first rule that explains a difference gives its reason.
"""

from __future__ import annotations

from functools import partial

from tests.fidelity.comparing import Rule, Verdict
from tests.fidelity.conditions import (
    emptied,
    failed_with_its_worker,
    follows_from_rows,
    has_no_definition,
    idle_worker_exited,
    is_end_message,
    is_own_id,
    is_pending_result,
    is_same_kind,
    is_time,
    moved_to_other_state,
    placed_as_its_actor,
    was_closed,
    was_forgotten,
    was_forgotten_in_timeline,
    went_on,
)
from tests.fidelity.log_conditions import (
    is_empty,
    is_folder,
    is_worker_log,
    live_failed,
    says_never_ran,
    was_written_after_the_answer,
)
from tests.fidelity.summaries import is_rays_count

DIFFERS = (Verdict.DIFFERS,)
MISSING = (Verdict.MISSING,)
EXTRA = (Verdict.EXTRA,)

SAMPLED = "sampled earlier: a moving value of the collector's last snapshot before the end"
ENDED = "the session has ended: what was alive or open is shown closed, with a message"
COUNTED = "follows from the rows, whose own differences are explained"
EMPTY_LOG = "better: Ray 2.55 answers 500 for an empty log"
NO_TRAIN = "better: Ray 2.55 answers 500 where Train was not used; we answer that there are no runs"
NEVER_RAN = "better: Ray 2.55 answers 500 for the log of what never ran, where we answer 400"
TASK_LOG = "better: Ray 2.55 has no log of an actor's task or a crashed one; its worker's is shown"
NO_METRICS = "Grafana and Prometheus belong to the live cluster"
FOLDERS = "object storage has no empty folders"
PLACED = "better: Ray's own list lacks node and worker of these tasks; the actor's events tell them"
IDLE_WORKER = (
    "better: when an idle worker exits before its last task's FINISHED has reached it, Ray's GCS "
    "marks that task failed, and goes on saying so"
)
RESTARTS = "better: Ray forgets the creation attempts of a restarted actor"
UNDEFINED = "better: Ray's own list leaves out tasks whose definition never reached it"
WORKER_EXIT = "Ray failed it at its worker's exit; no event says so, ours fails at its job's end"
GARBLED = "better: Ray's page of one actor writes the resource node:__internal_head__ in camel case"
LATER = "written by Ray between the live answer and the end"
REWRITTEN = "a file that Ray rewrites every ten seconds"
WENT_ON = "went on between the live answer and the end"

ACTOR_ENDED, WORKER_ENDED, NODE_ENDED = (
    partial(is_end_message, what) for what in ("actor", "worker", "node")
)
# What Ray's own processes write to until they end; workers are done before the live answer.
RAYS_OWN_LOG = r"filename=(gcs_server|raylet|dashboard|monitor|runtime_env_agent|log_monitor)[._]"
NODE_PAGES = (("/nodes?view=summary", "data.summary.*"), ("/nodes/{id}", "data.detail"))

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
        Rule(endpoint, f"{base}.{field}", SAMPLED, given=is_same_kind)
        for endpoint, base in NODE_PAGES
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
        "mem*", "gpus*", "processStats*", "numExecutedTasks", "numLocalObjects",
        "numObjectRefsInScope", "numPendingTasks", "used*", "taskQueueLength", "objectRefs*",
        "objectsTotal", "usedResources*",
    )  # fmt: skip
    rules = []
    for endpoint, base in bases:
        rules += [
            Rule(endpoint, f"{base}.state", ENDED, live=OPEN_ACTORS, ours=("DEAD",)),
            Rule(endpoint, f"{base}.endTime", ENDED, live=(0,), given=is_time),
            Rule(endpoint, f"{base}.exitDetail", ENDED, live=("-", "", None), given=ACTOR_ENDED),
            *(Rule(endpoint, f"{base}.{field}", SAMPLED, given=is_same_kind) for field in sampled),
        ]
        resources = f"{base}.requiredResources"
        # Serve's controller asks for a thousandth of it.
        garbled, right = (
            f"{resources}.node:{name}" for name in ("InternalHead", "__internal_head__")
        )
        rules += [
            Rule(endpoint, garbled, GARBLED, live=(0.001,), verdicts=MISSING),
            Rule(endpoint, right, GARBLED, ours=(0.001,), verdicts=EXTRA),
        ]
    return rules


def _tasks() -> list[Rule]:
    """Rows of tasks: closed by the end, gone on, placed, or forgotten by Ray."""
    tasks, rows = "/api/v0/tasks*", "data.result.result*"
    return [
        Rule(tasks, rows, RESTARTS, verdicts=EXTRA, given=was_forgotten),
        Rule("/api/v0/tasks/timeline*", "*", RESTARTS, verdicts=EXTRA,
             given=was_forgotten_in_timeline),
        Rule(tasks, f"{rows}.node_id", PLACED, live=(None,), given=placed_as_its_actor),
        Rule(tasks, f"{rows}.worker_id", PLACED, live=(None,), given=placed_as_its_actor),
        Rule(tasks, rows, UNDEFINED, verdicts=EXTRA, given=has_no_definition),
        Rule("/api/v0/tasks/timeline*", "*", UNDEFINED, verdicts=EXTRA, given=has_no_definition),
        *(
            Rule(tasks, f"{rows}.{field}", WORKER_EXIT, verdicts=DIFFERS,
                 given=failed_with_its_worker)
            for field in ("error_message", "end_time_ms", "events.*.created_ms")
        ),
        *(
            Rule(tasks, f"{rows}.{field}", IDLE_WORKER, verdicts=DIFFERS, given=idle_worker_exited)
            for field in ("state", "error_type", "error_message", "end_time_ms")
        ),
        Rule(tasks, f"{rows}.events.*", IDLE_WORKER, verdicts=MISSING, given=idle_worker_exited),
        Rule("/api/v0/tasks not finished", f"{rows}", IDLE_WORKER, verdicts=MISSING,
             given=idle_worker_exited),
        *(
            Rule(tasks, f"{rows}.{field}", ENDED, verdicts=DIFFERS, given=was_closed)
            for field in ("state", "end_time_ms", "error_type", "error_message")
        ),
        Rule("/api/v0/tasks by state", rows, ENDED, verdicts=EXTRA + MISSING,
             given=moved_to_other_state),
        Rule(tasks, rows, WENT_ON, given=went_on),
        Rule(tasks, "data.result.result", WENT_ON, verdicts=EXTRA + MISSING, given=emptied),
    ]  # fmt: skip


def _state_api() -> list[Rule]:
    """Other rows that the end closed."""
    rows = "data.result.result.*"
    actors, workers, nodes = (f"/api/v0/{name} *" for name in ("actors", "workers", "nodes"))
    context = f"{rows}.death_cause.actor_died_error_context"
    return [
        Rule("/api/v0/objects *", rows, SAMPLED, given=is_pending_result, verdicts=EXTRA + MISSING),
        Rule("/api/v0/objects *", f"{rows}.*", SAMPLED, given=is_pending_result),
        Rule(actors, f"{rows}.state", ENDED, live=OPEN_ACTORS, ours=("DEAD",)),
        Rule(actors, f"{rows}.death_cause", ENDED, live=(None,), verdicts=MISSING),
        Rule(actors, f"{context}.error_message", ENDED, verdicts=EXTRA, given=ACTOR_ENDED),
        Rule(actors, f"{context}.actor_id", ENDED, verdicts=EXTRA, given=is_own_id),
        Rule(workers, f"{rows}.is_alive", ENDED, live=(True,), ours=(False,)),
        Rule(workers, f"{rows}.end_time_ms", ENDED, live=(0, None), given=is_time),
        Rule(workers, f"{rows}.exit_detail", ENDED, live=(None,), given=WORKER_ENDED),
        Rule(nodes, f"{rows}.state", ENDED, live=("ALIVE",), ours=("DEAD",)),
        Rule(nodes, f"{rows}.state_message", ENDED, live=(None,), given=NODE_ENDED),
        Rule(nodes, f"{rows}.end_time_ms", ENDED, live=(0, None), given=is_time),
    ]


def _counts() -> list[Rule]:
    """Numbers that follow from the rows."""
    summary = "data.result.result.node_id_to_summary.cluster*"
    return [
        Rule("/api/v0/*", "data.result.total", COUNTED, verdicts=DIFFERS, given=follows_from_rows),
        Rule("/api/v0/*", "data.result.num_*", COUNTED, verdicts=DIFFERS, given=follows_from_rows),
        Rule("/api/v0/*/summarize*", summary, COUNTED, given=is_rays_count),
    ]


def _logs() -> list[Rule]:
    """Logs that Ray does not give, or writes on."""
    file = "/api/v0/logs/file*"
    refused = "/api/v0/logs/file of task"
    return [
        Rule(file, "text", EMPTY_LOG, ours=("",), verdicts=EXTRA, given=live_failed),
        Rule(file, "status", EMPTY_LOG, live=(500,), ours=(200,), given=is_empty),
        Rule(file, "status", NEVER_RAN, live=(500,), ours=(400,), given=says_never_ran),
        Rule(file, "*", NEVER_RAN, verdicts=EXTRA, given=says_never_ran),
        Rule(refused, "status", TASK_LOG, live=(500,), ours=(200,), given=is_worker_log),
        Rule(refused, "text", TASK_LOG, verdicts=EXTRA, given=is_worker_log),
        Rule(file, "status", LATER, live=(500,), ours=(200,), path=RAYS_OWN_LOG),
        Rule(file, "text", LATER, verdicts=EXTRA, path=RAYS_OWN_LOG),
        Rule(
            "/api/v0/logs/file", "text", REWRITTEN, verdicts=DIFFERS, path=r"filename=debug_state"
        ),
        Rule("/api/v0/logs*", "data.result.*", FOLDERS, verdicts=MISSING, given=is_folder),
    ]


RULES: tuple[Rule, ...] = (
    Rule("/api/grafana_health", "*", NO_METRICS),
    Rule("/api/prometheus_health", "*", NO_METRICS),
    Rule("/events", "data.events.*", LATER, verdicts=EXTRA, given=was_written_after_the_answer),
    Rule("/api/train/v2/runs/v1", "status", NO_TRAIN, live=(500,), ours=(200,)),
    Rule("/api/train/v2/runs/v1", "train_runs", NO_TRAIN, ours=([],), verdicts=EXTRA),
    Rule("/api/component_activities", "*.timestamp", SAMPLED, given=is_same_kind),
    Rule("/api/cluster_status*", "data.autoscalingStatus", SAMPLED, given=is_same_kind),
    Rule("/api/cluster_status*", "data.clusterStatus", SAMPLED, given=is_same_kind),
    Rule("/api/cluster_status*", "data.clusterStatus.*Time", SAMPLED, given=is_same_kind),
    Rule("/api/cluster_status*", "data.clusterStatus.time", SAMPLED, given=is_same_kind),
    *(
        Rule(endpoint, f"{base}.raylet.stateMessage", ENDED, live=(None, ""), given=NODE_ENDED)
        for endpoint, base in NODE_PAGES
    ),
    *_sampled_nodes(),
    *_actors(),
    *_tasks(),
    *_state_api(),
    *_counts(),
    *_logs(),
)
