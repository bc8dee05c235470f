"""The timeline: one valid Chrome trace, whole, the same at every request, in bounded pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import Profile, ProfileEvent, TaskDetail
from historyserver.queries.timeline import timeline
from tests.historyserver.queries.session_builder import JOB, Task, build, task_id

OTHER_JOB = "03000000"
COUNT = 1000


def profile(number: int, *, kind: str = "worker", extra: str = "{}") -> Profile:
    """The spans of one attempt."""
    start_ns = 1_796_000_000_000_000_000 + number * 1000
    spans = (
        ProfileEvent("task:execute", start_ns, start_ns + 500, extra),
        ProfileEvent("task::f", start_ns, start_ns + 700, '{"name": "__main__.f"}'),
    )
    return Profile(kind, f"w{number % 3}", f"10.0.0.{number % 2}", spans)


@pytest.fixture
def session(tmp_path: Path) -> CompiledSession:
    """More attempts than one batch, of two jobs, with a driver and one without spans."""
    tasks = [
        Task(task_id(n), name="f", detail=TaskDetail(profiles=[profile(n)])) for n in range(COUNT)
    ]
    tasks += [
        Task(task_id(1, OTHER_JOB), job=OTHER_JOB, detail=TaskDetail(profiles=[profile(7)])),
        Task("ff" * 20 + JOB, type="DRIVER_TASK", detail=TaskDetail(profiles=[profile(8)])),
        Task(task_id(COUNT)),
        Task(task_id(COUNT + 1), detail=TaskDetail(profiles=[profile(9, kind="raylet")])),
    ]
    return build(tmp_path / "compiled", tasks=tasks)


def read(session: CompiledSession, job_id: str | None = None) -> list[dict[str, Any]]:
    """The whole trace."""
    found: list[dict[str, Any]] = json.loads(b"".join(timeline(session, job_id)))
    return found


def test_trace_has_every_span(session: CompiledSession) -> None:
    """No limit of 10,000; neither driver nor raylet spans, as in Ray."""
    trace = read(session)
    assert sum(event["ph"] == "X" for event in trace) == 2 * (COUNT + 1)
    names = {event["args"]["name"] for event in trace if event["ph"] == "M"}
    assert names == {"Node 10.0.0.0", "Node 10.0.0.1", *(f"worker:w{n}" for n in range(3))}


def test_trace_of_one_job(session: CompiledSession) -> None:
    """An unknown job has an empty trace."""
    spans = [event for event in read(session, OTHER_JOB) if event["ph"] == "X"]
    assert [event["args"]["job_id"] for event in spans] == [OTHER_JOB, OTHER_JOB]
    assert spans[1]["name"] == "__main__.f"
    assert spans[1]["cat"] == "task::f"
    assert read(session, "09000000") == []


def test_trace_is_stable(session: CompiledSession) -> None:
    """KubeRay's server gives another order at every call."""
    assert list(timeline(session, None)) == list(timeline(session, None))


def test_trace_comes_in_pieces(session: CompiledSession) -> None:
    """Memory holds a batch, not the session."""
    pieces = list(timeline(session, None))
    assert len(pieces) > 5
    assert max(map(len, pieces)) < 200_000


def test_session_without_tasks_has_an_empty_trace(tmp_path: Path) -> None:
    """Valid JSON still."""
    assert read(build(tmp_path / "empty")) == []


@pytest.mark.parametrize(
    "extra, name, colour",
    [
        ('{"cname": "ray.get"}', "task:execute", "good"),
        ('{"name": "quo\\"te", "cname": 5}', 'quo"te', "generic_work"),
        ("not json", "task:execute", "rail_animation"),
        ("[1]", "task:execute", "rail_animation"),
        ("", "task:execute", "rail_animation"),
    ],
)
def test_names_and_colours_come_from_extra_data(
    tmp_path: Path, extra: str, name: str, colour: str
) -> None:
    """Ray's rule; odd data never breaks the trace."""
    task = Task(task_id(1), detail=TaskDetail(profiles=[profile(1, extra=extra)]))
    trace = read(build(tmp_path / "one", tasks=[task]))
    assert (trace[0]["name"], trace[0]["cname"]) == (name, colour)
    assert trace[0]["args"]["task_id"] == task_id(1)
