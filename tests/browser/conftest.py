"""What the browser tests share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo.checks import Session
from tests.browser.plans import Facts
from tests.fidelity.pairs import Pair, serving
from tests.harness.cluster import REPOSITORY

SCREENSHOTS = REPOSITORY / "build" / "browser"


@dataclass(frozen=True, slots=True)
class Served:
    """A dead session that a history server serves."""

    pair: Pair
    url: str
    facts: Facts

    @property
    def server(self) -> str:
        """The server's base URL."""
        return self.url.split("/s/", 1)[0]

    def process_logs(self) -> list[Path]:
        """What a failing test shows."""
        return self.pair.process_logs()


def ask_facts(url: str) -> Facts:
    """The ids that the pages' addresses need."""
    session = Session(url)
    node = session.rows("nodes")[0]
    task = next(row for row in session.rows("tasks") if row["name"] == "fails")
    actor = next(row for row in session.rows("actors") if row["name"] == "named-counter")
    return Facts(
        session=url.rsplit("/", 1)[1],
        job_id=task["job_id"],
        node_id=node["node_id"],
        node_ip=node["node_ip"],
        actor_id=actor["actor_id"],
        task_id=task["task_id"],
    )


@pytest.fixture(scope="session")
def served(small_pair: Pair, chromium: None) -> Iterator[Served]:
    """The small session under its link."""
    del chromium
    with serving(small_pair) as url:
        yield Served(small_pair, url, ask_facts(url))
