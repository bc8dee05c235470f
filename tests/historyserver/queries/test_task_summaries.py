"""Summaries of tasks are exact over all attempts, however many."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import ActorRecord
from historyserver.queries import lineage
from historyserver.queries.options import EQUAL, NOT_EQUAL, Filter, QueryError
from historyserver.queries.task_summaries import check_summary_by, summary_by_function
from tests.historyserver.queries.session_builder import JOB, NODE_B, Task, build, task_id

ACTOR = "ab" * 12 + JOB
COUNT = 12_000


@pytest.fixture
def session(tmp_path: Path) -> CompiledSession:
    """More attempts than Ray's limit; an actor; a driver; one attempt without definition."""
    tasks = [
        Task(task_id(n), name=f"call {n // 10}", func="square" if n % 2 else "cube",
             state="FAILED" if n % 100 == 0 else "FINISHED", node=NODE_B if n < 50 else None)
        for n in range(COUNT)
    ]  # fmt: skip
    tasks += [
        Task("ff" * 8 + ACTOR, name="Counter.__init__", type="ACTOR_CREATION_TASK", actor=ACTOR),
        Task("11" * 8 + ACTOR, name="Counter.add", type="ACTOR_TASK", actor=ACTOR),
        Task("ff" * 20 + JOB, name="driver", type="DRIVER_TASK"),
        Task(task_id(COUNT + 1), name=None, type=None, state="RUNNING"),
    ]
    actor = ActorRecord(actor_id=ACTOR, class_name="Counter", repr_name="my counter")
    return build(tmp_path / "compiled", tasks=tasks, actors=[actor])


def test_summary_counts_every_task(session: CompiledSession) -> None:
    """KubeRay's server counts the first 10,000 only, without a warning (fault 2)."""
    answer = summary_by_function(session, ())["data"]["result"]
    assert answer["total"] == answer["num_filtered"] == COUNT + 2
    cluster = answer["result"]["node_id_to_summary"]["cluster"]
    assert cluster["summary"]["square"]["state_counts"] == {"FINISHED": 6000}
    assert cluster["summary"]["cube"]["state_counts"] == {"FAILED": 120, "FINISHED": 5880}
    assert cluster["total_tasks"] == COUNT
    assert (cluster["total_actor_tasks"], cluster["total_actor_scheduled"]) == (1, 1)
    assert answer["warnings"] is None


@pytest.mark.parametrize(
    "filters, expected",
    [
        ((Filter("job_id", EQUAL, JOB),), COUNT + 2),
        ((Filter("job_id", EQUAL, "09000000"),), 0),
        ((Filter("state", EQUAL, "failed"),), 120),
        ((Filter("func_or_class_name", EQUAL, "square"), Filter("state", NOT_EQUAL, "x")), 6000),
        ((Filter("node_id", EQUAL, NODE_B),), 50),
        ((Filter("name", "contains", "call 11"),), 1110),
    ],
)
def test_summary_takes_every_filter(
    session: CompiledSession, filters: tuple[Filter, ...], expected: int
) -> None:
    """Counted from the table of counts or from rows: the same."""
    answer = summary_by_function(session, filters)["data"]["result"]
    cluster = answer["result"]["node_id_to_summary"]["cluster"]
    counted = sum(sum(e["state_counts"].values()) for e in cluster["summary"].values())
    assert answer["num_filtered"] == counted == expected


def test_lineage_with_filters_is_made_now(session: CompiledSession) -> None:
    """Groups with exact counts; the actor under its own name; children are cut, not counts."""
    answer = msgspec.to_builtins(
        lineage.summary_by_lineage(session, (Filter("job_id", EQUAL, JOB),))
    )
    cluster = answer["data"]["result"]["result"]["node_id_to_summary"]["cluster"]
    entries = {entry["name"]: entry for entry in cluster["summary"]}
    assert entries["my counter"]["state_counts"] == {"FINISHED": 2}
    assert entries["my counter"]["link"] == {"type": "actor", "id": ACTOR}
    assert cluster["total_tasks"] == COUNT
    failed = lineage.summary_by_lineage(session, (Filter("state", EQUAL, "FAILED"),))
    assert failed["data"]["result"]["num_filtered"] == 120


def test_lineage_says_when_it_is_cut(
    session: CompiledSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree made per request is bounded, and never silently."""
    monkeypatch.setattr(lineage, "MAX_ATTEMPTS", 10)
    answer = lineage.summary_by_lineage(session, (Filter("state", EQUAL, "FINISHED"),))
    inner = answer["data"]["result"]
    assert inner["num_filtered"] == COUNT - 120 + 2
    assert "Only the first" in inner["warnings"][0]


def test_prepared_lineage_covers_jobs_and_all_only(session: CompiledSession) -> None:
    """This session was built without one; other filters never ask for it."""
    assert lineage.prepared_lineage(session, ()) is None
    assert lineage.prepared_lineage(session, (Filter("job_id", NOT_EQUAL, JOB),)) is None


def test_an_unknown_kind_of_summary_is_refused() -> None:
    """As Ray checks it."""
    assert check_summary_by("lineage")
    assert not check_summary_by(None)
    assert not check_summary_by("func_name")
    with pytest.raises(QueryError, match="summary_by"):
        check_summary_by("color")
