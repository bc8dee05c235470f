"""A cluster whose workers come by need and go when idle: the history has those that are gone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from demo.checks import Session
from tests.e2e import watching
from tests.e2e.platform import LABELLED, Platform
from tests.e2e.ray_clusters import pod, start, submit

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAME = "scaled"
SELECTED = f"--selector=ray.io/cluster={NAME},ray.io/node-type=worker"


@dataclass(frozen=True, slots=True)
class Scaled:
    """The session of an autoscaled cluster that is deleted."""

    platform: Platform
    session: Session

    def process_logs(self) -> list[Path]:
        """What a failing test shows."""
        return self.platform.process_logs()


@pytest.fixture(scope="module")
def scaled(platform: Platform) -> Scaled:
    """A job makes a worker come; the idle worker goes; then the cluster is deleted."""
    (head,) = start(platform, NAME, head_cpus=0, autoscaled=True)
    submit(platform, head, "scaling.py", wait=True)
    get = ["get", "pods", f"--namespace={LABELLED}", SELECTED, "-o=name"]
    platform.until("end of the worker", lambda: not platform.node.kubectl(*get), timeout_s=120)
    platform.delete("rayclusters", LABELLED, NAME)
    (listed,) = platform.ended(LABELLED, NAME)
    return Scaled(platform, platform.session(listed))


def test_autoscaler_works_under_the_account_of_the_cluster(scaled: Scaled) -> None:
    """The head's account was replaced, and the autoscaler's rights went with it."""
    head = pod(scaled.platform, NAME, "head")
    assert head["spec"]["serviceAccountName"] == f"ray-historyserver-{NAME}"
    worker = pod(scaled.platform, NAME, "worker")
    assert watching.status_of(worker, "rayhs-collector")["restartCount"] == 0


def test_tasks_ran_on_the_worker_that_is_gone(scaled: Scaled) -> None:
    """The worker and its tasks are listed as of a node that is dead."""
    nodes = {row["node_id"]: row for row in scaled.session.rows("nodes")}
    tasks = [row for row in scaled.session.rows("tasks") if row["name"] == "on_worker"]
    assert [row["state"] for row in tasks] == ["FINISHED"] * 3
    workers = {row["node_id"] for row in tasks}
    assert {nodes[one]["is_head_node"] for one in workers} == {False}
    assert {nodes[one]["state"] for one in workers} == {"DEAD"}


def test_logs_of_the_worker_that_is_gone_can_be_read(scaled: Scaled) -> None:
    """Its collector stored them before the pod ended."""
    row = next(row for row in scaled.session.rows("tasks") if row["name"] == "on_worker")
    listed = scaled.session.json(f"/api/v0/logs?node_id={row['node_id']}")["data"]["result"]
    files = [name for names in listed.values() for name in names]
    assert any(name.startswith("raylet") for name in files)
