"""What tests do with a RayCluster of theirs: start it, submit jobs, read what the history has."""

from __future__ import annotations

from typing import Any

from demo.checks import Session
from tests.e2e import watching
from tests.e2e.platform import LABELLED, Platform
from tests.e2e.workloads import CODE_PATH, cluster_spec, ray_cluster


def start(platform: Platform, name: str, **spec: Any) -> list[watching.Pod]:
    """A RayCluster in the labelled namespace, whose pods all run."""
    platform.apply(ray_cluster(LABELLED, name, cluster_spec(**spec)))

    def ready() -> bool:
        status = (platform.get("rayclusters", LABELLED, name) or {}).get("status", {})
        return bool(status.get("state") == "ready")

    platform.until(f"ready RayCluster {name}", ready, timeout_s=180)
    return platform.watches[LABELLED].pods(name)


def pod(platform: Platform, cluster: str, role: str) -> watching.Pod:
    """The last that was seen of a cluster's head or worker."""
    pods = platform.watches[LABELLED].pods(cluster)
    return next(one for one in pods if watching.role(one) == role)


def run_inside(platform: Platform, one: watching.Pod, *command: str) -> str:
    """Run a command in a pod's Ray container, whatever its status."""
    name, container = one["metadata"]["name"], one["spec"]["containers"][0]["name"]
    where = [f"--namespace={LABELLED}", name, f"--container={container}"]
    return platform.node.kubectl("exec", *where, "--", *command, check=False)


def submit(platform: Platform, head: watching.Pod, script: str, *, wait: bool) -> None:
    """Submit a job from the head."""
    command = ["ray", "job", "submit", "--address=http://127.0.0.1:8265"]
    command += [] if wait else ["--no-wait"]
    run_inside(platform, head, *command, "--", "python", f"{CODE_PATH}/{script}")


def submitted_job(session: Session) -> dict[str, Any]:
    """The only submitted job, as the dashboard lists it."""
    (job,) = [one for one in session.json("/api/jobs/") if one["type"] == "SUBMISSION"]
    return dict(job)


def job_log(session: Session) -> list[str]:
    """What that job printed."""
    job = submitted_job(session)
    head = next(row for row in session.rows("nodes") if row["is_head_node"])
    log = f"job-driver-{job['submission_id']}.log"
    query = f"node_id={head['node_id']}&lines=-1&filename={log}"
    return session.get(f"/api/v0/logs/file?{query}").decode().splitlines()
