"""When a session is followed, and when it is over."""

from __future__ import annotations

import pytest

from collector.intake.envelope import Event
from collector.journal.recovery import PENDING_NODE
from collector.lifecycle.session_follower import (
    QUIET_S,
    STARTING_S,
    NodeNames,
    has_ended,
    is_worth_following,
)
from collector.ray_session import Raylet
from tests.collector.events import NODE, OTHER_NODE, SESSION


@pytest.mark.parametrize("raylet", list(Raylet))
def test_a_new_session_is_followed_in_whatever_state(raylet: Raylet) -> None:
    """Its raylet may still be starting, or be dead already with logs to ship."""
    assert is_worth_following(raylet, finished=False)


@pytest.mark.parametrize("raylet", list(Raylet))
def test_a_finished_session_is_followed_again_only_when_its_raylet_lives(raylet: Raylet) -> None:
    """Otherwise it would be finished for ever."""
    assert is_worth_following(raylet, finished=True) is (raylet is Raylet.UP)


@pytest.mark.parametrize(
    ("gone_s", "quiet_s", "seen_alive", "over"),
    [
        (29.9, 60.0, True, False),
        (30.0, 60.0, True, True),
        (30.0, QUIET_S - 0.1, True, False),
        (STARTING_S - 0.1, 60.0, False, False),
        (STARTING_S, QUIET_S, False, True),
    ],
)
def test_a_session_is_over_when_raylet_and_logs_have_been_still(
    gone_s: float, quiet_s: float, seen_alive: bool, over: bool
) -> None:
    """A raylet that was never seen alive is given the time of a slow start."""
    ended = has_ended(gone_s=gone_s, quiet_s=quiet_s, patience_s=30.0, seen_alive=seen_alive)
    assert ended is over


def test_events_are_filed_under_this_node_once_it_is_known() -> None:
    """Until then under the sender's id, and under none when it tells none."""
    names = NodeNames()
    event = _event(OTHER_NODE)
    assert names.of(event) == OTHER_NODE
    assert names.of(_event("")) == PENDING_NODE
    names.learn((SESSION, NODE))
    assert names.of(event) == NODE


def _event(node_id: str) -> Event:
    return Event(line=b"{}", event_id="e", session=SESSION, node_id=node_id, category="node_events")
