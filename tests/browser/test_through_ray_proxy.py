"""The same pages through the proxy of a real local Ray (`--proxy-server-url`)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from demo.namespace import Namespace
from demo.ray_head import DASHBOARD_URL, RAY_TEMP_DIR, start_head
from demo.server import server_command
from demo.session import wait_for, wait_until_ray_blocks
from tests.browser.conftest import SCREENSHOTS, Served
from tests.browser.plans import DASHBOARD_PAGES, dashboard_visits
from tests.harness.cluster import REPOSITORY
from tests.harness.starting import started

pytestmark = [pytest.mark.ray, pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

SERVER_PORT = 8080  # inside the private namespace
VISITS_TIMEOUT_S = 420.0


class ProxiedRay:
    """A namespace with a history server and an empty Ray whose dashboard forwards to it."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.folder = folder
        (folder / "ray").mkdir()
        self.namespace = Namespace.start(binds=[(folder / "ray", RAY_TEMP_DIR)])
        try:
            self._start(served)
        except BaseException:
            self.namespace.close()
            raise

    def _start(self, served: Served) -> None:
        command = server_command(
            storage=served.pair.tree, cache=self.folder / "cache", port=SERVER_PORT
        )
        server_log, ray_log = self.folder / "historyserver.log", self.folder / "ray.log"
        with server_log.open("ab") as output:
            server = self.namespace.popen(command, cwd=REPOSITORY, output=output)
        url = f"http://127.0.0.1:{SERVER_PORT}"
        wait_for(self.namespace, f"{url}/readyz", server, server_log)
        proxy = f"--proxy-server-url={url}"
        ray = start_head(self.namespace, log=ray_log, cwd=self.folder, arguments=[proxy])
        # One of the few paths that Ray answers itself; the others need a chosen session.
        wait_for(self.namespace, f"{DASHBOARD_URL}/api/gcs_healthz", ray, ray_log)
        wait_until_ray_blocks(ray, ray_log)

    def process_logs(self) -> list[Path]:
        """What a failing test shows."""
        return sorted(self.folder.glob("*.log"))


@pytest.fixture(scope="module")
def proxied(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedRay]:
    """The proxy over the small session."""
    ray = started(lambda: ProxiedRay(served, tmp_path_factory.mktemp("proxy")))
    yield ray
    ray.namespace.close()


@pytest.fixture(scope="module")
def seen(proxied: ProxiedRay, served: Served) -> dict[str, dict[str, object]]:
    """All pages, visited once, after the session was chosen by its enter link."""
    enter = f"{DASHBOARD_URL}/enter_cluster/default/demo/{served.facts.session}"
    visits = dashboard_visits(DASHBOARD_URL, served.facts, cookie_url=enter)
    plan = {
        "visits": [asdict(visit) for visit in visits],
        "screenshots": str(SCREENSHOTS / "proxy"),
    }
    done = proxied.namespace.run(
        [sys.executable, "-m", "tests.browser.visiting", json.dumps(plan)],
        cwd=REPOSITORY,
        env=dict(os.environ),
        timeout_s=VISITS_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {each["name"]: each for each in json.loads(done.stdout)}


@pytest.mark.parametrize("page", DASHBOARD_PAGES)
def test_page_shows_the_dead_session(seen: dict[str, dict[str, object]], page: str) -> None:
    """The live, empty cluster behind the proxy is not what is shown."""
    assert seen[page]["missing"] == [], seen[page]["text"]


@pytest.mark.parametrize("page", DASHBOARD_PAGES)
def test_page_has_no_console_error(seen: dict[str, dict[str, object]], page: str) -> None:
    """Neither an error in the console nor an uncaught one."""
    assert seen[page]["errors"] == []
