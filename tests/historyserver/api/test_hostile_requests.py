"""Addresses made to confuse: the answer has the one shape, and on API paths is never 404."""

from __future__ import annotations

import pytest

from storage.backend import Backend
from tests.historyserver.asking import Asker, refused
from tests.historyserver.hand_made import PREFIX, HandMade, app_of


@pytest.fixture
def ask(backend: Backend, hand_made: HandMade) -> Asker:
    """A client of an open session."""
    return Asker(app_of(backend, hand_made.opened()))


ROOTS = [
    "api", "api/v0", "api/v0/logs", "api/jobs", "nodes", "logical", "logical/actors", "events",
    "timezone", "cluster_id", "usage_stats_enabled", "task", "worker", "memory_profile",
]  # fmt: skip
ODD = ["a%0Ab", "%0D%0AX-A:%20b", "%00", "%2e%2e%2fetc", "..", "%ff", "%F0%9F%98%80", "a/b/c", "%"]


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("odd", ODD)
def test_no_name_makes_an_api_path_404(ask: Asker, root: str, odd: str) -> None:
    """Ray's proxy would show the local cluster instead. A newline matches no route of Flask."""
    for base in (PREFIX, ""):
        response = ask.get(f"{base}/{root}/{odd}")
        assert response.status_code != 404
        if response.status_code != 200:
            assert response.get_json()["data"]["error"]["code"]


@pytest.mark.parametrize("path", ["/clusters/x", "/enter_cluster", "/enter_cluster/a%0Ab/c"])
def test_choosing_never_answers_404(ask: Asker, path: str) -> None:
    """These paths go through Ray's proxy too."""
    assert ask.get(path).status_code == 400


def test_other_paths_are_404_as_before(ask: Asker) -> None:
    """What is no API is left to whoever has it."""
    refused(ask.get("/nothing"), "not_found", status=404)


def test_following_a_log_by_web_socket_is_not_kept(ask: Asker) -> None:
    """`ray job logs --follow` gets the reason."""
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    refused(ask.session("/api/jobs/a/logs/tail", headers=headers), "not_kept")


@pytest.mark.parametrize(
    "query",
    ["filter_keys=severity", "filter_keys=severity&filter_predicates=%3D", "filter_values=x"],
)
def test_filters_of_events_that_do_not_match_up_are_refused(ask: Asker, query: str) -> None:
    """Else all events would look like the wanted ones."""
    refused(ask.session(f"/api/v0/cluster_events?{query}"), "bad_request")
