"""What the dead session must answer: the demo's own test of the whole line."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from demo.session import SUBMISSION_ID

TIMEOUT_S = 60.0
EXPECTED_TASKS = {
    ("square", "FINISHED"): 21,
    ("leaf", "FINISHED"): 5,
    ("parent", "FINISHED"): 1,
    ("fails", "FAILED"): 1,
    ("fails_once", "FAILED"): 1,
    ("fails_once", "FINISHED"): 1,
    ("slow", "FINISHED"): 1,
    ("Counter.crash", "FAILED"): 1,
    ("Counter.add", "FINISHED"): 5,
}
EXPECTED_ACTORS = {"named-counter", "detached-counter", "restarted-counter", "killed-counter"}


class WrongAnswer(Exception):  # noqa: N818 - it is an answer, not an error of ours
    """A check failed; the message says what was expected and what came."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session's API under its link."""

    url: str

    def get(self, path: str) -> bytes:
        """The body of an answer with status 200."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self.url + path, timeout=TIMEOUT_S) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as error:
            text = error.read()[:300].decode(errors="replace")
            raise WrongAnswer(f"{path}: status {error.code}: {text}") from error
        except OSError as error:
            raise WrongAnswer(f"{path}: {error}") from error

    def json(self, path: str) -> Any:
        """The same, decoded."""
        return json.loads(self.get(path))

    def rows(self, resource: str) -> list[dict[str, Any]]:
        """All rows of a state API resource."""
        answer = self.json(f"/api/v0/{resource}?detail=1&limit=10000")
        rows: list[dict[str, Any]] = answer["data"]["result"]["result"]
        return rows


def expect(holds: bool, expected: str, got: object) -> None:
    """Raise WrongAnswer when a condition does not hold."""
    if not holds:
        raise WrongAnswer(f"expected {expected}, got {got!r:.300}")


def check_job(session: Session) -> str:
    """The job with its final state."""
    job = session.json(f"/api/jobs/{SUBMISSION_ID}")
    expect(job["status"] == "SUCCEEDED", "status SUCCEEDED", job["status"])
    listed = [each["submission_id"] for each in session.json("/api/jobs/")]
    expect(SUBMISSION_ID in listed, f"{SUBMISSION_ID} in the list of jobs", listed)
    return "job SUCCEEDED"


def check_tasks(session: Session) -> str:
    """Every attempt with its state."""
    tasks = session.rows("tasks")
    counts = Counter((task["func_or_class_name"], task["state"]) for task in tasks)
    for key, count in EXPECTED_TASKS.items():
        expect(counts[key] == count, f"{count} of {' '.join(key)}", dict(counts))
    return f"{len(tasks)} task attempts with their states"


def check_error(session: Session) -> str:
    """The text of a failed task's error."""
    failed = [task for task in session.rows("tasks") if task["func_or_class_name"] == "fails"]
    text = str(failed[0]["error_message"])
    expect("fails on purpose: 数 ≠ 0" in text, "the error's text", text)
    return "the failed task's error text"


def check_actors(session: Session) -> str:
    """Actors by name, the killed one dead, the restarted one counted."""
    actors = {actor["name"]: actor for actor in session.rows("actors")}
    expect(actors.keys() >= EXPECTED_ACTORS, f"actors {sorted(EXPECTED_ACTORS)}", list(actors))
    killed = actors["killed-counter"]["state"]
    expect(killed == "DEAD", "the killed actor DEAD", killed)
    detail = session.json(f"/logical/actors/{actors['restarted-counter']['actor_id']}")
    restarts = detail["data"]["detail"]["numRestarts"]
    expect(int(restarts) == 1, "one restart", restarts)
    return f"{len(actors)} actors"


def check_groups(session: Session) -> str:
    """Placement groups, the removed one and the other."""
    groups = {group["name"]: group["state"] for group in session.rows("placement_groups")}
    expected = {"demo-group": "REMOVED", "kept-group": "CREATED"}
    expect(groups == expected, str(expected), groups)
    return "placement groups"


def check_nodes(session: Session) -> str:
    """The node, which Ray never reported dead."""
    nodes = session.rows("nodes")
    expect(len(nodes) == 1, "one node", nodes)
    expect(nodes[0]["state"] == "DEAD", "the node DEAD", nodes[0]["state"])
    shown = session.json("/nodes?view=summary")["data"]["summary"]
    expect(len(shown) == 1, "the node on the cluster page", shown)
    return "1 node"


def check_logs(session: Session) -> str:
    """A task's output, the user's own log and the driver's."""
    node_id = session.rows("nodes")[0]["node_id"]
    base = f"/api/v0/logs/file?node_id={node_id}&lines=-1&filename="
    user = session.get(base + "demo-user.log").decode()
    expect("a line of the user's own log, with ünïcödé" in user, "the user's log", user)
    driver = session.get(base + f"job-driver-{SUBMISSION_ID}.log").decode()
    expect("the sample job is done" in driver, "the driver's last line", driver[-200:])
    task = next(each for each in session.rows("tasks") if each["func_or_class_name"] == "square")
    for suffix, words in (("out", "square of"), ("err", "wrote this line to stderr")):
        query = f"task_id={quote(task['task_id'])}&suffix={suffix}&lines=-1"
        text = session.get(f"/api/v0/logs/file?{query}").decode()
        expect(words in text, f"the task's std{suffix}", text)
    return "logs of user, driver and task"


def check_pages(session: Session) -> str:
    """Ray's own page is served under the link, and the timeline has its spans."""
    page = session.get("/").decode()
    expect('<div id="root">' in page, "Ray's dashboard page", page)
    timeline = session.json("/api/v0/tasks/timeline")
    expect(len(timeline) > 40, "a timeline with spans", len(timeline))
    return "Ray's dashboard and the timeline"


CHECKS: tuple[Callable[[Session], str], ...] = (
    check_job,
    check_tasks,
    check_error,
    check_actors,
    check_groups,
    check_nodes,
    check_logs,
    check_pages,
)


def run_checks(session: Session) -> Iterator[tuple[bool, str]]:
    """Run all; one (passed, text) for each."""
    for check in CHECKS:
        try:
            yield True, check(session)
        except WrongAnswer as wrong:
            yield False, f"{check.__name__}: {wrong}"
        except (KeyError, IndexError, StopIteration, TypeError, ValueError) as error:
            yield False, f"{check.__name__}: the answer's shape is wrong: {error!r}"
