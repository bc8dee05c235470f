"""A real session, live and dead, compared field by field."""

from __future__ import annotations

import pytest

from tests.fidelity.__main__ import GOALS
from tests.fidelity.comparing import Compared, undeclared
from tests.fidelity.pairs import Pair, compared
from tests.fidelity.table import listing, markdown, rows, total

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def results(small_pair: Pair) -> list[Compared]:
    """The comparison, made once."""
    return compared(small_pair)


def test_every_difference_is_explained(results: list[Compared], small_pair: Pair) -> None:
    """No field differs without a declared reason."""
    assert small_pair.live.exists()
    assert not list(undeclared(results)), f"\n{listing(undeclared(results))}"


def test_the_goal_is_reached(results: list[Compared]) -> None:
    """At least 97 % of all fields are equal (98 % of the rich session's, see `make fidelity`)."""
    assert total(rows(results)).share >= GOALS["small"], f"\n{markdown(results)}"


@pytest.mark.parametrize(
    "endpoint",
    [
        "/api/jobs/",
        "/api/v0/jobs detail",
        "/api/v0/placement_groups detail",
        "/api/v0/runtime_envs detail",
        "/api/v0/tasks/timeline of job",
        "/events",
        "/api/v0/cluster_metadata",
        "/timezone",
    ],
)
def test_what_does_not_move_is_equal(results: list[Compared], endpoint: str) -> None:
    """Endpoints without moving values have no field that differs or is missing."""
    row = next(each for each in rows(results) if each.endpoint == endpoint)
    assert row.share == 1.0, dict(row.reasons)
