"""All answers of a pair, for rules whose reason must be borne out by other answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fidelity.asking import Answer

TASKS = "/api/v0/tasks?detail=1&limit=10000"
ACTORS = "/api/v0/actors?detail=1&limit=10000"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What each side answered, by the path that was asked."""

    live: Mapping[str, Answer]
    ours: Mapping[str, Answer]

    @classmethod
    def of(cls, pairs: Iterable[tuple[Answer, Answer]]) -> Evidence:
        """From the answers of both sides to the same requests."""
        live, ours = {}, {}
        for left, right in pairs:
            live[left.path], ours[right.path] = left, right
        return cls(live, ours)


def query(path: str) -> dict[str, str]:
    """The parameters of a request."""
    return {key: values[0] for key, values in parse_qs(urlsplit(path).query).items()}


def rows(side: Mapping[str, Answer], path: str) -> list[dict[str, Any]]:
    """The rows of a state API answer; none when it was not asked."""
    answer = side.get(path)
    if answer is None or not isinstance(answer.body, dict):
        return []
    found = answer.body.get("data", {}).get("result", {}).get("result", [])
    return found if isinstance(found, list) else []


def matching(found: Iterable[dict[str, Any]], path: str) -> list[dict[str, Any]]:
    """The rows that the one filter of a request lets through."""
    asked = query(path)
    key = asked.get("filter_keys")
    if key is None:
        return list(found)
    wants_equal = asked["filter_predicates"] == "="
    return [row for row in found if (str(row.get(key)) == asked["filter_values"]) is wants_equal]


def attempt(row: Mapping[str, Any]) -> tuple[Any, Any]:
    """The identity of a task's attempt."""
    return row.get("task_id"), row.get("attempt_number")


def task(side: Mapping[str, Answer], identity: tuple[Any, Any]) -> dict[str, Any] | None:
    """An attempt in the full list of tasks."""
    return next((row for row in rows(side, TASKS) if attempt(row) == identity), None)


def actor(side: Mapping[str, Answer], actor_id: Any) -> dict[str, Any] | None:
    """An actor in the full list of actors."""
    return next((row for row in rows(side, ACTORS) if row.get("actor_id") == actor_id), None)
