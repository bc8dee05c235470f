"""Lists of tasks: start order, limits, and pages that together are exactly the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.queries.options import EQUAL, Filter, ListOptions, QueryError, list_options
from tests.historyserver.queries.session_builder import JOB, Task, build, task_id
from tests.historyserver.queries.task_lists import list_tasks

COUNT = 1234


@pytest.fixture
def session(tmp_path: Path) -> CompiledSession:
    """Attempts in start order, not in the order of their ids; a driver between them."""
    tasks = [Task(task_id(COUNT - n), name=f"t{n % 3}", pid=n) for n in range(COUNT)]
    tasks.insert(600, Task("ff" * 20 + JOB, type="DRIVER_TASK", name="driver"))
    return build(tmp_path / "compiled", tasks=tasks)


@pytest.mark.parametrize("detail", [False, True])
@pytest.mark.parametrize("limit", [1, 100, 617, COUNT, 10_000])
def test_pages_together_are_the_whole_list(
    session: CompiledSession, limit: int, detail: bool
) -> None:
    """Without gaps or repeats, in start order; the last page says that it is."""
    if limit == 1:
        limit = 411  # a page per row would only be slow
    seen: list[int] = []
    token: str | None = ""
    while token is not None:
        options = ListOptions(limit=limit, detail=detail, page_token=token)
        data = list_tasks(session, options)["data"]
        assert data["result"]["total"] == data["result"]["num_filtered"] == COUNT
        seen += [row["worker_pid"] for row in data["result"]["result"]]
        token = data["next_page_token"]
    assert seen == list(range(COUNT))


def test_pages_keep_the_filters(session: CompiledSession) -> None:
    """Totals on a later page are of all pages."""
    filters = (Filter("name", EQUAL, "t1"),)
    first = list_tasks(session, ListOptions(limit=5, filters=filters, page_token=""))["data"]
    token = first["next_page_token"]
    second = list_tasks(session, ListOptions(limit=5, filters=filters, page_token=token))["data"]
    assert [row["worker_pid"] for row in second["result"]["result"]] == [16, 19, 22, 25, 28]
    assert second["result"]["num_filtered"] == 411


def test_no_token_is_shown_to_who_asks_for_none(session: CompiledSession) -> None:
    """Ray's own clients get Ray's own shape."""
    assert set(list_tasks(session, ListOptions())["data"]) == {"result"}


@pytest.mark.parametrize(
    "token", ["x", "row-", "row-xyz", "row-1; DROP TABLE tasks", "row-" + "f" * 16]
)
def test_foreign_token_is_refused(session: CompiledSession, token: str) -> None:
    """Never taken as the first page."""
    with pytest.raises(QueryError, match="page_token"):
        list_tasks(session, ListOptions(page_token=token))


def test_options_default_to_rays() -> None:
    """A limit of 100, no detail, no driver; `timeout` is ignored."""
    assert list_options({}) == ListOptions(100, False, True, (), None)
    assert list_options({"timeout": ["x"], "server_timeout_multiplier": ["0.8"]}) == ListOptions()


@pytest.mark.parametrize(
    "text, value", [("1", True), ("0", False), ("True", True), ("false", False)]
)
def test_detail_is_read_as_the_page_and_as_the_cli_write_it(text: str, value: bool) -> None:
    """The dashboard sends 1, the CLI True."""
    assert list_options({"detail": [text]}).detail is value


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"limit": ["20000"]}, "Given limit 20000 exceeds the supported limit 10000"),
        ({"limit": ["-1"]}, "negative"),
        ({"limit": ["ten"]}, "whole number"),
        ({"limit": ["9" * 5000]}, "limit"),
        ({"detail": ["yes"]}, "detail"),
        ({"exclude_driver": [""]}, "exclude_driver"),
        ({"filter_keys": ["name"]}, "equally often"),
        (
            {"filter_keys": ["name"], "filter_predicates": ["~"], "filter_values": ["x"]},
            "Unsupported filter predicate ~",
        ),
        (
            {name: ["x"] * 101 for name in ("filter_keys", "filter_predicates", "filter_values")},
            "At most 100 filters",
        ),
    ],
)
def test_options_that_cannot_be_understood_are_refused(
    arguments: dict[str, list[str]], words: str
) -> None:
    """In Ray's words where it has some."""
    with pytest.raises(QueryError, match=words):
        list_options(arguments)
