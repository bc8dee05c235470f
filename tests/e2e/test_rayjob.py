"""RayJobs whose clusters are deleted at once: what the history keeps of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.checks import Session
from tests.browser.visiting import Visit, run
from tests.e2e import watching
from tests.e2e.code import ADDS, LAST_LINE, LINES, SQUARES
from tests.e2e.platform import LABELLED, Platform
from tests.e2e.ray_clusters import job_log, submitted_job
from tests.e2e.workloads import ray_job
from tests.harness.cluster import REPOSITORY

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

COLLECTOR = "rayhs-collector"


@dataclass(frozen=True, slots=True)
class Finished:
    """A RayJob that is over and whose cluster is gone."""

    platform: Platform
    name: str
    cluster: str
    session: Session
    pods: list[watching.Pod]

    def process_logs(self) -> list[Path]:
        """What a failing test shows."""
        return self.platform.process_logs()

    def job(self) -> dict[str, Any]:
        """The submitted job, as the dashboard lists it."""
        return submitted_job(self.session)


def _run_job(platform: Platform, name: str, mode: str) -> Finished:
    platform.apply(ray_job(LABELLED, name, mode=mode))

    def complete() -> str | None:
        status = (platform.get("rayjobs", LABELLED, name) or {}).get("status", {})
        done = status.get("jobDeploymentStatus") == "Complete"
        return str(status["rayClusterName"]) if done else None

    cluster = platform.until(f"complete RayJob {name}", complete, timeout_s=240)
    platform.until(
        f"end of RayCluster {cluster}",
        lambda: platform.get("rayclusters", LABELLED, cluster) is None,
        timeout_s=60,
    )
    (listed,) = platform.ended(LABELLED, cluster)
    pods = platform.watches[LABELLED].pods(cluster)
    return Finished(platform, name, cluster, platform.session(listed), pods)


@pytest.fixture(scope="module", params=["K8sJobMode", "HTTPMode"])
def finished(platform: Platform, request: pytest.FixtureRequest) -> Finished:
    """One job in each way of submission that users have."""
    mode: str = request.param
    return _run_job(platform, f"job-{mode.lower()}", mode)


def test_job_is_listed_as_succeeded(finished: Finished) -> None:
    """The state of the job's end was kept though its cluster was deleted seconds later."""
    job = finished.job()
    assert job["status"] == "SUCCEEDED"
    assert job["entrypoint"].endswith("job.py")


def test_session_belongs_to_the_rayjob(finished: Finished) -> None:
    """Users look for the RayJob that they named, not for the cluster's generated name."""
    (listed,) = finished.platform.sessions(LABELLED, finished.cluster)
    assert (listed["ownerKind"].lower(), listed["ownerName"]) == ("rayjob", finished.name)


def test_every_task_is_there(finished: Finished) -> None:
    """Each attempt with its state."""
    rows = finished.session.rows("tasks")
    counts = Counter((row["func_or_class_name"], row["state"]) for row in rows)
    assert counts["square", "FINISHED"] == SQUARES
    assert counts["Counter.add", "FINISHED"] == ADDS
    assert counts["fails", "FAILED"] == 1


def test_actor_is_dead_with_its_name(finished: Finished) -> None:
    """The job's actor ended with it."""
    actors = {row["name"]: row["state"] for row in finished.session.rows("actors")}
    assert actors["counter"] == "DEAD"


def test_log_of_the_job_has_its_last_line(finished: Finished) -> None:
    """Nothing that was printed before the end is lost."""
    lines = job_log(finished.session)
    assert lines[-1] == LAST_LINE
    assert sum(line.endswith(" of the job") for line in lines) == LINES


def test_both_nodes_are_there(finished: Finished) -> None:
    """Head and worker each had a collector."""
    nodes = finished.session.rows("nodes")
    assert sorted(row["is_head_node"] for row in nodes) == [False, True]
    assert {row["state"] for row in nodes} == {"DEAD"}


def test_collector_is_a_native_sidecar_around_ray(finished: Finished) -> None:
    """It starts before Ray's container and ends after it, in order."""
    assert sorted(map(watching.role, finished.pods)) == ["head", "worker"]
    for pod in finished.pods:
        ray = watching.status_of(pod, pod["spec"]["containers"][0]["name"])
        collector = watching.status_of(pod, COLLECTOR)
        assert collector["restartCount"] == 0
        assert collector["state"]["terminated"]["exitCode"] == 0
        begun, ray_begun = watching.started_at(collector), watching.started_at(ray)
        ended, ray_ended = watching.ended_at(collector), watching.ended_at(ray)
        assert begun
        assert ray_begun
        assert begun <= ray_begun
        assert ended
        assert ray_ended
        assert ended >= ray_ended


def test_dashboard_shows_it_in_a_browser(finished: Finished, chromium: None) -> None:
    """Ray's own pages through the Service."""
    del chromium
    base, job = finished.session.url, finished.job()
    listed = finished.platform.server_url
    visits = [
        Visit("sessions", f"{listed}/", [finished.name, LABELLED]),
        Visit("jobs", f"{base}/#/jobs", [job["submission_id"], "SUCCEEDED"]),
        Visit("actors", f"{base}/#/actors", ["Counter", "DEAD"]),
        Visit("cluster", f"{base}/#/cluster", ["ALIVE"]),
    ]
    for seen in run(visits, REPOSITORY / "build" / "browser" / finished.name):
        assert (seen.missing, seen.errors) == ([], []), f"{seen.name}: {seen.text}"
