"""Which pages of the dead session are visited, and what each must show."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from tests.browser.visiting import Visit

DASHBOARD_PAGES = (
    "overview",
    "jobs",
    "job",
    "task",
    "actors",
    "actor",
    "cluster",
    "logs",
    "log",
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the session has, asked from its API."""

    session: str
    job_id: str
    node_id: str
    node_ip: str
    actor_id: str
    task_id: str


def dashboard_visits(base: str, facts: Facts, *, cookie_url: str = "") -> list[Visit]:
    """Pages of Ray's own dashboard under `base` (no slash at its end)."""
    log = f"nodeId={facts.node_id}&fileName={quote('demo-user.log')}"
    pages: dict[str, tuple[str, list[str]]] = {
        "overview": ("overview", ["demo-job", "Recent jobs"]),
        "jobs": ("jobs", ["demo-job", "SUCCEEDED", "sample_job.py"]),
        "job": (
            f"jobs/{facts.job_id}",
            ["demo-job", "SUCCEEDED", "Ray Core Overview", "Finished: 40"],
        ),
        "task": (f"jobs/{facts.job_id}/tasks/{facts.task_id}", ["fails", "FAILED"]),
        "actors": ("actors", ["named-counter", "DEAD"]),
        "actor": (f"actors/{facts.actor_id}", ["Counter", "named-counter", facts.actor_id]),
        "cluster": ("cluster", [facts.node_ip, "ALIVE"]),
        "logs": ("logs", [facts.node_id[:8]]),
        "log": (f"logs/viewer?{log}", ["a line of the user's own log, with ünïcödé"]),
    }
    clicks = {"job": ("Task Table", ["TOTAL x", "FAILED x", "square"])}
    visits = []
    for name in DASHBOARD_PAGES:
        path, texts = pages[name]
        click, then = clicks.get(name, ("", []))
        visits.append(Visit(name, f"{base}/#/{path}", texts, cookie_url, click, then))
    return visits


def list_visit(server: str, facts: Facts) -> Visit:
    """Our own first page: the list of sessions."""
    return Visit("sessions", f"{server}/", ["demo", facts.session])
