"""What goes wrong with pods, nodes and storage: what the history has afterwards, and what it says."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from demo.checks import Session
from tests.e2e import watching
from tests.e2e.code import LAST_LINE
from tests.e2e.platform import LABELLED, Platform
from tests.e2e.workloads import CODE_PATH, cluster_spec, ray_cluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TICK = re.compile(r"tick (\d+) (\d+\.\d+)")


def _start(platform: Platform, name: str, **spec: Any) -> list[watching.Pod]:
    """A RayCluster whose pods all run."""
    platform.apply(ray_cluster(LABELLED, name, cluster_spec(**spec)))

    def ready() -> bool:
        status = (platform.get("rayclusters", LABELLED, name) or {}).get("status", {})
        return bool(status.get("state") == "ready")

    platform.until(f"ready RayCluster {name}", ready, timeout_s=180)
    return platform.watches[LABELLED].pods(name)


def _pod(platform: Platform, cluster: str, role: str) -> watching.Pod:
    pods = platform.watches[LABELLED].pods(cluster)
    return next(pod for pod in pods if watching.role(pod) == role)


def _exec(platform: Platform, pod: watching.Pod, *command: str) -> str:
    name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
    where = [f"--namespace={LABELLED}", name, f"--container={container}"]
    return platform.node.kubectl("exec", *where, "--", *command, check=False)


def _submit(platform: Platform, head: watching.Pod, script: str, *, wait: bool) -> None:
    command = ["ray", "job", "submit", "--address=http://127.0.0.1:8265"]
    command += [] if wait else ["--no-wait"]
    _exec(platform, head, *command, "--", "python", f"{CODE_PATH}/{script}")


def _job_log(session: Session) -> list[str]:
    (job,) = [one for one in session.json("/api/jobs/") if one["type"] == "SUBMISSION"]
    head = next(row for row in session.rows("nodes") if row["is_head_node"])
    log = f"job-driver-{job['submission_id']}.log"
    query = f"node_id={head['node_id']}&lines=-1&filename={log}"
    return session.get(f"/api/v0/logs/file?{query}").decode().splitlines()


def test_head_that_ran_out_of_memory_leaves_two_sessions(platform: Platform) -> None:
    """The head's container is restarted in its pod, and both sessions are kept apart."""
    head = _start(platform, "oom", workers=0, memory="1536Mi")[0]
    _submit(platform, head, "job.py", wait=True)
    _exec(platform, head, "python", f"{CODE_PATH}/fill_memory.py")

    def restarted() -> bool:
        status = watching.status_of(_pod(platform, "oom", "head"), "ray-head")
        reason = status.get("lastState", {}).get("terminated", {}).get("reason")
        return reason == "OOMKilled" and bool(status["ready"])

    platform.until("restarted head", restarted, timeout_s=120)
    platform.until(
        "second session", lambda: len(platform.sessions(LABELLED, "oom")) == 2, timeout_s=60
    )
    again = _pod(platform, "oom", "head")
    _submit(platform, again, "job.py", wait=True)
    platform.delete("rayclusters", LABELLED, "oom")
    first, second = platform.ended(LABELLED, "oom", count=2)
    for listed in (first, second):
        assert _job_log(platform.session(listed))[-1] == LAST_LINE
    assert watching.status_of(_pod(platform, "oom", "head"), "rayhs-collector")["restartCount"] == 0


def test_worker_deleted_by_force_loses_ten_seconds_at_most(platform: Platform) -> None:
    """Its collector is killed without a word: what it had not stored is lost, and that is said."""
    head = next(pod for pod in _start(platform, "forced") if watching.role(pod) == "head")
    worker = _pod(platform, "forced", "worker")["metadata"]["name"]
    _submit(platform, head, "ticking.py", wait=False)
    time.sleep(20)
    killed_at = time.time()
    force = ["--force", "--grace-period=0"]
    platform.node.kubectl("delete", "pod", worker, f"--namespace={LABELLED}", *force)
    time.sleep(15)
    platform.delete("rayclusters", LABELLED, "forced")
    listed = platform.until(
        "ended session of forced",
        lambda: [one for one in platform.sessions(LABELLED, "forced") if one["state"] != "running"],
        timeout_s=120,
    )
    session = platform.session(listed[0])
    found = _ticks(session, worker)
    assert found, "nothing was kept of the worker's task"
    assert killed_at - found[-1] <= 10.0


def _ticks(session: Session, pod: str) -> list[float]:
    """When each tick was printed, of those that the history has."""
    rows = [row for row in session.rows("tasks") if row["func_or_class_name"] == "ticks"]
    times: list[float] = []
    for row in rows:
        query = f"task_id={row['task_id']}&attempt_number={row['attempt_number']}&lines=-1"
        text = session.get(f"/api/v0/logs/file?{query}&suffix=out").decode()
        times += [float(match[2]) for match in TICK.finditer(text)]
        if times:
            return times
    raise AssertionError(f"no ticks of {pod}: {json.dumps(rows)[:2000]}")


def test_restart_of_the_kubelet_loses_nothing(platform: Platform) -> None:
    """Pods run on without their kubelet, and so does the collection."""
    head = _start(platform, "kubelet", workers=0)[0]
    _submit(platform, head, "job.py", wait=True)
    platform.node.restart_kubelet(down_s=5.0)
    time.sleep(5)
    head = _pod(platform, "kubelet", "head")
    assert watching.status_of(head, "rayhs-collector")["restartCount"] == 0
    assert watching.status_of(head, "ray-head")["restartCount"] == 0
    platform.delete("rayclusters", LABELLED, "kubelet")
    (listed,) = platform.ended(LABELLED, "kubelet")
    assert _job_log(platform.session(listed))[-1] == LAST_LINE


def test_storage_that_is_down_at_the_end_of_a_job_gets_all_of_it_later(platform: Platform) -> None:
    """Everything waits on the pod's own disk until the storage takes it."""
    head = _start(platform, "nostore", workers=0)[0]
    time.sleep(5)
    _refuse_writes(platform.storage, refused=True)
    try:
        _submit(platform, head, "job.py", wait=True)
        platform.delete("rayclusters", LABELLED, "nostore")
        time.sleep(10)
    finally:
        _refuse_writes(platform.storage, refused=False)
    (listed,) = platform.ended(LABELLED, "nostore")
    assert _job_log(platform.session(listed))[-1] == LAST_LINE


def _refuse_writes(storage: Path, *, refused: bool) -> None:
    """The collector is not root: without the right to write it is refused as by a full disk."""
    for folder in [storage, *(path for path in storage.rglob("*") if path.is_dir())]:
        folder.chmod(0o555 if refused else 0o777)
