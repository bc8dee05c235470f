"""A RayService: its application is shown after its cluster is gone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.checks import Session
from tests.e2e.platform import LABELLED, Platform
from tests.e2e.workloads import ray_service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAME = "greeting"


@dataclass(frozen=True, slots=True)
class Served:
    """The session of a RayService that is deleted."""

    platform: Platform
    listed: dict[str, Any]

    @property
    def session(self) -> Session:
        """Its API."""
        return self.platform.session(self.listed)

    def process_logs(self) -> list[Path]:
        """What a failing test shows."""
        return self.platform.process_logs()


@pytest.fixture(scope="module")
def served(platform: Platform) -> Served:
    """Wait until the application runs and is asked once; then delete the RayService."""
    platform.apply(ray_service(LABELLED, NAME))

    def running() -> str | None:
        status = (platform.get("rayservices", LABELLED, NAME) or {}).get("status", {})
        active = status.get("activeServiceStatus", {})
        found = active.get("applicationStatuses", {}).get("greeting", {})
        return str(active["rayClusterName"]) if found.get("status") == "RUNNING" else None

    cluster = platform.until("running application", running, timeout_s=240)
    selected = f"--selector=ray.io/cluster={cluster},ray.io/node-type=head"
    head = platform.node.kubectl("get", "pods", f"-n={LABELLED}", selected, "-o=name").strip()
    ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/').read().decode())"
    run = ["exec", f"-n={LABELLED}", head, "-c=ray-head", "--", "python", "-c", ask]
    platform.until(
        "greeting",
        lambda: platform.node.kubectl(*run, check=False).strip() == "hello",
        timeout_s=60,
    )
    # What only the live dashboard knows of Serve is asked for from time to time.
    session = platform.session(platform.sessions(LABELLED, cluster)[0])
    platform.until(
        "stored answer of Serve",
        lambda: "greeting" in session.json("/api/serve/applications/").get("applications", {}),
        timeout_s=90,
    )
    platform.delete("rayservices", LABELLED, NAME)
    (listed,) = platform.ended(LABELLED, cluster)
    return Served(platform, listed)


def test_session_belongs_to_the_rayservice(served: Served) -> None:
    """Users look for the RayService that they named."""
    owner = (served.listed["ownerKind"].lower(), served.listed["ownerName"])
    assert owner == ("rayservice", NAME)


def test_application_is_shown_with_its_deployment(served: Served) -> None:
    """As the Serve page of the live dashboard had it."""
    application = served.session.json("/api/serve/applications/")["applications"]["greeting"]
    assert application["route_prefix"] == "/"
    assert list(application["deployments"]) == ["Greeter"]


def test_replica_is_an_actor_with_its_log(served: Served) -> None:
    """What the replica printed can be read."""
    actors = served.session.rows("actors")
    replica = next(row for row in actors if "Greeter" in row["class_name"])
    query = f"actor_id={replica['actor_id']}&suffix=out&lines=-1"
    text = served.session.get(f"/api/v0/logs/file?{query}").decode()
    assert "greeted" in text
