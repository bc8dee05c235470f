"""Compare two captures field by field and attach the declared reasons. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from tests.fidelity.asking import Answer
from tests.fidelity.evidence import Evidence
from tests.fidelity.leaves import Leaf, leaves, normal_timeline

FLOAT_TOLERANCE = 1e-9


class Verdict(StrEnum):
    """What became of one field of the live answer (`EXTRA`: only our answer has it)."""

    EQUAL = "equal"
    DIFFERS = "differs"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True)
class Rule:
    """A difference that is known and explained: all that is given must match.

    `given` looks at more than the field: at its row, and at what else was answered.
    """

    endpoint: str
    field: str
    reason: str
    live: tuple[Any, ...] = ()  # the live values it is limited to; empty: any
    ours: tuple[Any, ...] = ()  # the same for our values
    verdicts: tuple[Verdict, ...] = (Verdict.DIFFERS, Verdict.MISSING, Verdict.EXTRA)
    path: str = ""  # a pattern that is found in what was asked
    given: Callable[[Difference, Evidence], bool] | None = None

    def explains(self, difference: Difference, evidence: Evidence) -> bool:
        """Whether this rule is about the difference."""
        return (
            fnmatchcase(difference.endpoint, self.endpoint)
            and fnmatchcase(difference.field, self.field)
            and difference.verdict in self.verdicts
            and (not self.live or _is_one_of(difference.live, self.live))
            and (not self.ours or _is_one_of(difference.ours, self.ours))
            and re.search(self.path, difference.path) is not None
            and (self.given is None or self.given(difference, evidence))
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that is not equal."""

    endpoint: str
    path: str
    place: str
    field: str
    verdict: Verdict
    live: Any
    ours: Any
    live_row: Any = None
    our_row: Any = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """One answer compared: how many fields are equal, and all that are not."""

    endpoint: str
    path: str
    equal: int
    differences: tuple[Difference, ...]


def _is_one_of(value: Any, allowed: tuple[Any, ...]) -> bool:
    """`in`, but False is not 0."""
    return any(value == each and type(value) is type(each) for each in allowed)


def compare(
    live: Iterable[Answer], ours: Iterable[Answer], rules: Sequence[Rule]
) -> list[Compared]:
    """Compare the answers to the same requests, in their order."""
    pairs = list(zip(live, ours, strict=True))
    evidence = Evidence.of(pairs)
    return [_compare(left, right, rules, evidence) for left, right in pairs]


def _compare(live: Answer, ours: Answer, rules: Sequence[Rule], evidence: Evidence) -> Compared:
    left, right = _fields(live), _fields(ours)
    equal = 0
    found: list[Difference] = []
    for place in [*left, *(place for place in right if place not in left)]:
        one, other = left.get(place), right.get(place)
        verdict = _verdict(live, one, other)
        if verdict is Verdict.EQUAL:
            equal += 1
            continue
        leaf = one or other
        assert leaf
        difference = Difference(
            endpoint=live.endpoint,
            path=live.path,
            place=place,
            field=leaf.field,
            verdict=verdict,
            live=one.value if one else None,
            ours=other.value if other else None,
            live_row=one.row if one else None,
            our_row=other.row if other else None,
        )
        found.append(_with_reason(difference, rules, evidence))
    return Compared(live.endpoint, live.path, equal, tuple(found))


def _with_reason(difference: Difference, rules: Sequence[Rule], evidence: Evidence) -> Difference:
    for rule in rules:
        if rule.explains(difference, evidence):
            return replace(difference, reason=rule.reason)
    return difference


def _fields(answer: Answer) -> dict[str, Leaf]:
    """Status and body as leaves; the text of a failure is not compared, its status is."""
    fields = {"status": Leaf("status", answer.status)}
    if answer.status >= 500 and isinstance(answer.body, str):
        return fields
    body = answer.body
    if "timeline" in answer.endpoint and isinstance(body, list):
        body = normal_timeline(body)
    if isinstance(body, str):
        return fields | {"text": Leaf("text", body)}
    return fields | leaves(body)


def _verdict(answer: Answer, live: Leaf | None, ours: Leaf | None) -> Verdict:
    if live is None:
        return Verdict.EXTRA
    if ours is None:
        return Verdict.MISSING
    grows = answer.endpoint.startswith("/api/v0/logs/file") or answer.endpoint.endswith("/logs")
    return Verdict.EQUAL if same(live.value, ours.value, grows=grows) else Verdict.DIFFERS


def same(live: Any, ours: Any, *, grows: bool = False) -> bool:
    """Equal, with the stated tolerances.

    Floats may differ in the last digits; JSON inside a string is compared as JSON; a log may
    have grown after the live answer (Ray's own processes write until they end).
    """
    if isinstance(live, bool) or isinstance(ours, bool):
        return live is ours
    if isinstance(live, (int, float)) and isinstance(ours, (int, float)):
        return math.isclose(live, ours, rel_tol=FLOAT_TOLERANCE, abs_tol=0.0)
    if isinstance(live, str) and isinstance(ours, str):
        return live == ours or (grows and ours.startswith(live)) or _same_json(live, ours)
    return bool(live == ours) and type(live) is type(ours)


def _same_json(live: str, ours: str) -> bool:
    if not (live.startswith("{") and ours.startswith("{")):
        return False
    try:
        return bool(json.loads(live) == json.loads(ours))
    except ValueError:
        return False


def undeclared(compared: Iterable[Compared]) -> Iterator[Difference]:
    """The differences that no rule explains: each fails the test."""
    for each in compared:
        yield from (difference for difference in each.differences if difference.reason is None)
