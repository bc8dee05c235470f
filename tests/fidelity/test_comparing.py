"""The comparison itself: a test of fidelity is worth what its comparison sees."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fidelity.asking import Answer
from tests.fidelity.comparing import Compared, Rule, Verdict, compare, same, undeclared
from tests.fidelity.document import document
from tests.fidelity.leaves import leaves, normal_timeline
from tests.fidelity.table import listing, rows, total


def answer(body: Any, *, status: int = 200, endpoint: str = "/api/v0/tasks") -> Answer:
    """An answer as a capture has it."""
    return Answer(endpoint, endpoint, status, "application/json", body)


def one(live: Any, ours: Any, rules: tuple[Rule, ...] = (), **kept: Any) -> Compared:
    """The comparison of one pair of answers."""
    return compare([answer(live, **kept)], [answer(ours, **kept)], rules)[0]


def test_rows_match_by_identity_not_by_order() -> None:
    """The same rows in another order are equal."""
    first = [{"task_id": "a", "attempt_number": 0, "x": 1}, {"task_id": "b", "attempt_number": 0}]
    result = one(first, first[::-1])
    assert result.differences == ()
    assert result.equal == len(leaves(first)) + 1  # and the status


def test_each_kind_of_difference_is_seen() -> None:
    """A changed, a lacking and an additional field each have their verdict."""
    live = {"same": 1, "changed": "a", "lacking": None}
    result = one(live, {"same": 1, "changed": "b", "additional": 0})
    verdicts = {each.field: each.verdict for each in result.differences}
    assert verdicts == {
        "changed": Verdict.DIFFERS,
        "lacking": Verdict.MISSING,
        "additional": Verdict.EXTRA,
    }


def test_lacking_row_counts_with_all_its_fields() -> None:
    """A row that we do not have is missing field by field."""
    live = [{"actor_id": "a", "state": "ALIVE", "pid": 1}]
    assert [each.verdict for each in one(live, []).differences] == [
        *[Verdict.MISSING] * 3,
        Verdict.EXTRA,
    ]


def test_status_is_a_field() -> None:
    """Another status is a difference, and the text of a failure is not compared."""
    result = compare([answer("Server got itself in trouble", status=500)], [answer("")], ())[0]
    assert [each.field for each in result.differences] == ["status", "text"]


@pytest.mark.parametrize(
    ("live", "ours", "equal"),
    [
        (1, 1.0, True),
        (0.1 + 0.2, 0.3, True),
        (1, True, False),
        (0, None, False),
        (0, "", False),
        ([], {}, False),
        ("1", 1, False),
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}', True),
        ('{"a": 1}', '{"a": 2}', False),
        ("text", "text and more", False),
    ],
)
def test_equality_has_stated_tolerances_only(live: Any, ours: Any, equal: bool) -> None:
    """Types matter; last digits of floats and JSON's form inside strings do not."""
    assert same(live, ours) is equal


def test_only_logs_may_grow() -> None:
    """A log that has more lines at its end is equal, one that lacks lines is not."""
    grown = one("a\n", "a\nb\n", endpoint="/api/v0/logs/file")
    shrunk = one("a\nb\n", "b\n", endpoint="/api/v0/logs/file")
    assert (grown.differences, len(shrunk.differences)) == ((), 1)


def test_rule_explains_only_its_own_differences() -> None:
    """A rule is limited to endpoint, field, live value and verdict."""
    kinds = (Verdict.DIFFERS,)
    rule = Rule("/api/v0/tasks", "*.state", "closed", live=("RUNNING",), verdicts=kinds)
    live = [{"state": "RUNNING", "name": "a", "other": {"state": "FINISHED"}}]
    ours = [{"state": "FAILED", "name": "b", "other": {"state": "FAILED"}}]
    left = [each.field for each in undeclared([one(live, ours, (rule,))])]
    assert left == ["*.name", "*.other.state"]


def test_ids_as_keys_are_stars_in_fields() -> None:
    """A map by actor id is one field for rules and tables."""
    body = {"actors": {"ab" * 16: {"state": "DEAD"}, "cd" * 16: {"state": "DEAD"}}}
    assert {leaf.field for leaf in leaves(body).values()} == {"actors.*.state"}


def test_duplicate_rows_are_not_swallowed() -> None:
    """Two rows with one identity stay two."""
    row = {"task_id": "a", "attempt_number": 0}
    assert one([row, row], [row]).differences


def test_timeline_numbers_are_labels() -> None:
    """Traces with other process and thread numbers for the same names are equal."""

    def trace(pid: int, tid: int, name: str) -> list[dict[str, Any]]:
        return [
            {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "Node 1"}},
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}},
            {"ph": "X", "name": "f", "cat": "task", "ts": 1.0, "dur": 2, "pid": pid, "tid": tid},
        ]

    assert normal_timeline(trace(0, 1, "w")) == normal_timeline(trace(4, 7, "w"))
    assert normal_timeline(trace(0, 1, "w")) != normal_timeline(trace(0, 1, "other"))


def test_document_tells_share_and_reasons() -> None:
    """The page has the share, a row per endpoint, and each reason with its count."""
    rule = Rule("*", "cpu", "sampled earlier")
    results = [one({"cpu": 1.0, "name": "a", "gone": 1}, {"cpu": 2.0, "name": "a"}, (rule,))]
    page = document(results)
    assert "**50.00% of 4 fields are equal**" in page
    assert "| sampled earlier | 1 | `cpu` |" in page
    assert "NOT EXPLAINED" in page
    assert total(rows(results)).share == 0.5
    assert "gone: missing" in listing(undeclared(results))
