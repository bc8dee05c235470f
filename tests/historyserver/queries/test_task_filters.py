"""Filters on tasks: every column filters, by Ray's rules; nothing is silently ignored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.records import TaskDetail
from historyserver.queries.columns import TASKS
from historyserver.queries.options import Filter, ListOptions, QueryError
from tests.historyserver.queries.ray_answers import live
from tests.historyserver.queries.session_builder import (
    JOB,
    NODE_A,
    NODE_B,
    START_MS,
    WORKER,
    Task,
    build,
    task_id,
)
from tests.historyserver.queries.task_lists import list_tasks

OTHER_JOB = "03000000"
ACTOR = "ab" * 12 + JOB
GROUP = "cd" * 14 + JOB

TASKS_OF_SESSION = [
    Task(task_id(1), name="square", creation_ms=START_MS),
    Task(
        task_id(2), name="Square", func="square", node=NODE_B, pid=200, state="FAILED",
        error_type="WORKER_DIED", start_ms=START_MS + 50,
    ),
    Task(
        task_id(2), attempt=1, name="Square", func="square", worker="dd" * 28,
        detail=TaskDetail(is_debugger_paused=True),
    ),
    Task(
        "11" * 8 + ACTOR, name="Counter.add", type="ACTOR_TASK", actor=ACTOR, language="JAVA",
        placement_group=GROUP, parent=task_id(1),
    ),
    Task(task_id(5), name="größe", state="PENDING_NODE_ASSIGNMENT", node=None, worker=None,
         pid=None, start_ms=None, end_ms=None),
    Task(task_id(6, OTHER_JOB), job=OTHER_JOB, name="other"),
    Task("ff" * 20 + JOB, type="DRIVER_TASK", name="driver", parent=None, node=None),
    Task(task_id(8), type=None, name=None, state="RUNNING"),
]  # fmt: skip
LISTED = len(TASKS_OF_SESSION) - 2
"""Without the driver and the attempt that has no definition."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompiledSession]:
    """Attempts that differ in every column."""
    session = build(tmp_path_factory.mktemp("filters") / "compiled", tasks=TASKS_OF_SESSION)
    yield session
    session.close()


def ask(session: CompiledSession, *filters: tuple[str, str, str], **options: Any) -> dict[str, Any]:
    """The inner part of a list answer."""
    chosen = ListOptions(filters=tuple(Filter(*parts) for parts in filters), **options)
    found: dict[str, Any] = list_tasks(session, chosen)["data"]["result"]
    return found


def names(answer: dict[str, Any]) -> list[str]:
    """The names of the rows of an answer."""
    return [row["name"] for row in answer["result"]]


@pytest.mark.parametrize(
    "key, value, expected",
    [
        ("name", "square", 3),
        ("func_or_class_name", "SQUARE", 3),
        ("node_id", NODE_B, 1),
        ("node_id", NODE_B.upper(), 1),
        ("worker_id", WORKER, 4),
        ("error_type", "worker_died", 1),
        ("type", "actor_task", 1),
        ("actor_id", ACTOR, 1),
        ("parent_task_id", task_id(1), 1),
        ("worker_pid", "200", 1),
        ("attempt_number", "1", 1),
        ("placement_group_id", GROUP, 1),
        ("language", "java", 1),
        ("state", "finished", 4),
        ("job_id", OTHER_JOB, 1),
        ("task_id", task_id(2), 2),
        ("start_time_ms", str(START_MS + 50), 1),
        ("creation_time_ms", str(START_MS), 6),
        ("end_time_ms", str(START_MS + 2), 5),
        ("is_debugger_paused", "true", 1),
    ],
)
def test_every_column_filters(
    key: str, value: str, expected: int, session: CompiledSession
) -> None:
    """KubeRay's server answers zero rows without an error for name, func and node (fault 8)."""
    equal = ask(session, (key, "=", value))
    differs = ask(session, (key, "!=", value))
    assert equal["num_filtered"] == len(equal["result"]) == expected
    assert differs["num_filtered"] == len(differs["result"]) == LISTED - expected


def test_the_test_above_knows_every_filterable_column() -> None:
    """A new column must be added there."""
    marks = test_every_column_filters.pytestmark  # type: ignore[attr-defined]
    assert {row[0] for row in marks[0].args[1]} == TASKS.filterable


@pytest.mark.parametrize("value", ["nosuch", "zz", ""])
@pytest.mark.parametrize("key", ["name", "task_id", "parent_task_id", "node_id", "state"])
def test_unknown_value_matches_nothing(key: str, value: str, session: CompiledSession) -> None:
    """And its negation everything."""
    assert ask(session, (key, "=", value))["result"] == []
    assert len(ask(session, (key, "!=", value))["result"]) == LISTED


def test_several_filters_mean_all_of_them(session: CompiledSession) -> None:
    """Also two on one column."""
    both = ask(session, ("name", "=", "square"), ("state", "!=", "FAILED"))
    assert names(both) == ["square", "Square"]
    assert ask(session, ("name", "=", "square"), ("name", "=", "other"))["result"] == []


def test_total_counts_what_rays_gcs_lets_through(session: CompiledSession) -> None:
    """Ray's GCS filters by actor, job, task, name and state; the rest is num_filtered only."""
    by_job = ask(session, ("job_id", "=", JOB))
    assert (by_job["total"], by_job["num_filtered"]) == (5, 5)
    by_node = ask(session, ("job_id", "=", JOB), ("node_id", "=", NODE_B))
    assert (by_node["total"], by_node["num_filtered"]) == (5, 1)
    assert by_node["num_after_truncation"] == 5


def test_totals_do_not_depend_on_the_limit(session: CompiledSession) -> None:
    """A short page is counted without a second query, a full one with."""
    for limit in (0, 1, 2, 100):
        answer = ask(session, ("node_id", "=", NODE_A), limit=limit)
        assert (answer["total"], answer["num_filtered"]) == (LISTED, 4)
        assert len(answer["result"]) == min(limit, 4)


def test_latest_attempt_of_a_task_comes_first(session: CompiledSession) -> None:
    """Ray's page of a task asks for one row; a retried task that succeeded is no failed one."""
    by_id = ("task_id", "=", task_id(2))
    (row,) = ask(session, by_id, limit=1)["result"]
    assert (row["attempt_number"], row["state"]) == (1, "FINISHED")
    assert [row["attempt_number"] for row in ask(session, by_id)["result"]] == [1, 0]


def test_first_creation_of_a_restarted_actor_comes_first(tmp_path: Path) -> None:
    """Ray knows no other: attempts of restarts have no definition there."""
    creation_id = "ff" * 8 + ACTOR
    creations = [
        Task(creation_id, attempt=n, type="ACTOR_CREATION_TASK", actor=ACTOR) for n in range(2)
    ]
    session = build(tmp_path / "restarted", tasks=creations)
    found = ask(session, ("task_id", "=", creation_id))["result"]
    assert [row["attempt_number"] for row in found] == [0, 1]


def test_driver_is_listed_only_when_asked_for(session: CompiledSession) -> None:
    """As in Ray; an attempt without a definition never is."""
    assert "driver" not in names(ask(session))
    with_driver = ask(session, exclude_driver=False)
    assert "driver" in names(with_driver)
    assert with_driver["total"] == LISTED + 1


def test_contains_and_comparisons_are_our_extension(session: CompiledSession) -> None:
    """Text contains without case; numbers compare; an absent value never matches."""
    assert names(ask(session, ("name", "contains", "QUAR"))) == ["square", "Square", "Square"]
    assert names(ask(session, ("name", "contains", "öß"))) == ["größe"]
    later = ask(session, ("start_time_ms", ">", str(START_MS + 1)))
    assert [row["task_id"] for row in later["result"]] == [task_id(2)]
    assert ask(session, ("worker_pid", "<=", "100"))["num_filtered"] == 4


@pytest.mark.parametrize("text", ["%", "_", "' OR 1=1 --", "\x00", "x" * 10_000, "🙂"])
def test_text_is_only_text(text: str, session: CompiledSession) -> None:
    """No wildcard, no SQL, no crash."""
    assert ask(session, ("name", "=", text))["result"] == []
    assert ask(session, ("name", "contains", text))["result"] == []


@pytest.mark.parametrize(
    "parts, words",
    [
        (("nokey", "=", "x"), "The given filter column nokey is not supported"),
        (("events", "=", "x"), "not supported"),
        (("worker_pid", "=", "many"), "whole number"),
        (("worker_pid", "=", "9" * 40), "64 bits"),
        (("is_debugger_paused", "=", "maybe"), "True"),
        (("name", "<", "x"), "for numbers"),
        (("worker_pid", "contains", "1"), "for text"),
    ],
)
def test_what_cannot_be_filtered_is_refused(
    parts: tuple[str, str, str], words: str, session: CompiledSession
) -> None:
    """With words that tell what to do."""
    with pytest.raises(QueryError, match=words):
        ask(session, parts)


def test_refusal_of_an_unknown_column_reads_as_rays() -> None:
    """Ray's clients print this text."""
    words = live("tasks_badfilter")["msg"].split()
    with pytest.raises(QueryError) as error:
        TASKS.check([Filter("nokey", "=", "FINISHED")])
    ours = str(error.value).split()
    assert ours[:9] == words[:9]
    columns = [word.strip("{}[],'") for word in words[words.index("columns:") + 1 :]]
    assert set(columns) <= {word.strip("[],'") for word in ours}


VALUES = {
    "name": st.sampled_from(["square", "SQUARE", "counter.add", "größe", "driver", "", "x"]),
    "func_or_class_name": st.sampled_from(["square", "Counter.add", "x"]),
    "state": st.sampled_from(["FINISHED", "failed", "RUNNING", "x"]),
    "node_id": st.sampled_from([NODE_A, NODE_B, "x"]),
    "job_id": st.sampled_from([JOB, OTHER_JOB, "x"]),
    "worker_pid": st.sampled_from(["100", "200", "0", "-1"]),
    "attempt_number": st.sampled_from(["0", "1", "7"]),
    "task_id": st.sampled_from([task_id(1), task_id(2), "x"]),
    "parent_task_id": st.sampled_from([task_id(1), "x"]),
    "error_type": st.sampled_from(["WORKER_DIED", "x"]),
    "type": st.sampled_from(["NORMAL_TASK", "ACTOR_TASK", "x"]),
}
FILTERS = st.sampled_from(sorted(VALUES)).flatmap(
    lambda key: st.tuples(st.just(key), st.sampled_from(["=", "!="]), VALUES[key])
)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(filters=st.lists(FILTERS, max_size=4), limit=st.integers(0, 9), driver=st.booleans())
def test_sql_filters_as_ray_filters_rows(
    session: CompiledSession, filters: list[tuple[str, str, str]], limit: int, driver: bool
) -> None:
    """Any combination gives the rows that Ray's loop over all rows would give."""
    everything = ask(session, exclude_driver=not driver)["result"]
    expected = [row for row in everything if all(_passes(row, *parts) for parts in filters)]
    if any(parts[:2] == ("task_id", "=") for parts in filters):
        expected.sort(key=lambda row: -row["attempt_number"])
    answer = ask(session, *filters, exclude_driver=not driver, limit=limit)
    assert answer["result"] == expected[:limit]
    assert answer["num_filtered"] == len(expected)


def _passes(row: dict[str, Any], key: str, predicate: str, value: str) -> bool:
    found = row[key]
    if isinstance(found, str):
        same = found.lower() == value.lower()
    elif found is None:
        same = False
    else:
        same = found == int(value)
    return same if predicate == "=" else not same


def test_dense_and_sparse_filters_agree(tmp_path: Path) -> None:
    """Above some thousand matches another way is taken; the answer is the same."""
    many = [
        Task(task_id(n), name="dense" if n % 2 else "sparse" if n % 1000 == 0 else "rest",
             state="FAILED" if n % 100 == 0 else "FINISHED")
        for n in range(1, 8001)
    ]  # fmt: skip
    many.append(Task("ff" * 20 + JOB, type="DRIVER_TASK", name="dense"))
    session = build(tmp_path / "many", tasks=many)
    assert ask(session, ("name", "=", "dense"))["num_filtered"] == 4000
    assert ask(session, ("name", "=", "dense"), ("job_id", "=", JOB))["total"] == 4000
    assert ask(session, ("name", "=", "sparse"), ("state", "=", "FAILED"))["num_filtered"] == 8
    assert ask(session, ("name", "!=", "dense"), ("state", "=", "FAILED"))["num_filtered"] == 80
    assert ask(session, ("name", "=", "dense"), exclude_driver=False)["num_filtered"] == 4001
