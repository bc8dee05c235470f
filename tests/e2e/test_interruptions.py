"""What goes wrong with pods, nodes and storage: what the history has afterwards, and what it says."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from demo.checks import Session
from tests.e2e import watching
from tests.e2e.code import LAST_LINE
from tests.e2e.platform import LABELLED, Platform
from tests.e2e.ray_clusters import job_log, pod, start, submit

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TICK = re.compile(r"tick (\d+) (\d+\.\d+)")


def test_worker_deleted_by_force_loses_ten_seconds_at_most(platform: Platform) -> None:
    """Its collector is killed without a word: what it had not stored is lost, and that is said."""
    head = next(pod for pod in start(platform, "forced") if watching.role(pod) == "head")
    worker = pod(platform, "forced", "worker")["metadata"]["name"]
    submit(platform, head, "ticking.py", wait=False)
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


def _ticks(session: Session, pod_name: str) -> list[float]:
    """When each tick was printed, of those that the history has."""
    rows = [row for row in session.rows("tasks") if row["func_or_class_name"] == "ticks"]
    times: list[float] = []
    for row in rows:
        query = f"task_id={row['task_id']}&attempt_number={row['attempt_number']}&lines=-1"
        text = session.get(f"/api/v0/logs/file?{query}&suffix=out").decode()
        times += [float(match[2]) for match in TICK.finditer(text)]
        if times:
            return times
    raise AssertionError(f"no ticks of {pod_name}: {json.dumps(rows)[:2000]}")


def test_restart_of_the_kubelet_loses_nothing(platform: Platform) -> None:
    """Pods run on without their kubelet, and so does the collection."""
    head = start(platform, "kubelet", workers=0)[0]
    submit(platform, head, "job.py", wait=True)
    platform.node.restart_kubelet(down_s=5.0)
    time.sleep(5)
    head = pod(platform, "kubelet", "head")
    assert watching.status_of(head, "rayhs-collector")["restartCount"] == 0
    assert watching.status_of(head, "ray-head")["restartCount"] == 0
    platform.delete("rayclusters", LABELLED, "kubelet")
    (listed,) = platform.ended(LABELLED, "kubelet")
    assert job_log(platform.session(listed))[-1] == LAST_LINE


def test_storage_that_is_down_at_the_end_of_a_job_gets_all_of_it_later(platform: Platform) -> None:
    """Everything waits on the pod's own disk until the storage takes it."""
    head = start(platform, "nostore", workers=0)[0]
    time.sleep(5)
    _refuse_writes(platform.storage, refused=True)
    try:
        submit(platform, head, "job.py", wait=True)
        platform.delete("rayclusters", LABELLED, "nostore")
        time.sleep(10)
    finally:
        _refuse_writes(platform.storage, refused=False)
    (listed,) = platform.ended(LABELLED, "nostore")
    assert job_log(platform.session(listed))[-1] == LAST_LINE


def _refuse_writes(storage: Path, *, refused: bool) -> None:
    """The collector is not root: without the right to write it is refused as by a full disk."""
    for folder in [storage, *(path for path in storage.rglob("*") if path.is_dir())]:
        folder.chmod(0o555 if refused else 0o777)
