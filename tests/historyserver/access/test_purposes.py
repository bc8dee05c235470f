"""What the access policy is asked: the purpose of a request, and which session it is about."""

from __future__ import annotations

import pytest

from historyserver.access import AccessRequest, Decision, Purpose
from storage.backend import Backend
from tests.historyserver.asking import Asker, refused
from tests.historyserver.hand_made import PREFIX, REF, SESSION, HandMade, app_of
from tests.historyserver.policies import RecordingPolicy

PLACE = f"ml/raycluster/v170/{SESSION}"
ANOTHER = "ml/raycluster/another/latest"


@pytest.mark.parametrize(
    ("path", "purpose", "session"),
    [
        ("/healthz", Purpose.PROBE, ""),
        ("/metrics", Purpose.PROBE, ""),
        (f"{PREFIX}/metrics", Purpose.PROBE, PLACE),
        ("/", Purpose.LIST, ""),
        ("/clusters", Purpose.LIST, ""),
        (f"{PREFIX}/clusters", Purpose.LIST, PLACE),
        ("/assets/style.css", Purpose.PAGE, ""),
        ("/no/such/page", Purpose.PAGE, ""),
        (f"/about/{PLACE}/", Purpose.SESSION, PLACE),
        (f"/s/{ANOTHER}/about/{PLACE}/", Purpose.SESSION, PLACE),
        (f"/enter_cluster/{PLACE}", Purpose.SESSION, PLACE),
        (f"{PREFIX}/", Purpose.SESSION, PLACE),
        (f"{PREFIX}/static/main.js", Purpose.SESSION, PLACE),
        (f"{PREFIX}/api/v0/tasks", Purpose.SESSION, PLACE),
        ("/api/v0/tasks", Purpose.SESSION, ""),
    ],
)
def test_the_policy_hears_what_a_request_is_for(
    backend: Backend, hand_made: HandMade, path: str, purpose: Purpose, session: str
) -> None:
    """Whatever stands in front of a route; a session's page is never a mere page."""
    policy = RecordingPolicy()
    Asker(app_of(backend, hand_made.opened(), policy=policy)).get(path)
    (asked,) = policy.asked
    assert asked.purpose is purpose
    assert (asked.selection.path if asked.selection else "") == (f"s/{session}/" if session else "")


@pytest.mark.parametrize("path", [f"/about/{PLACE}/", f"/enter_cluster/{PLACE}"])
def test_a_cookie_does_not_stand_for_the_session_in_the_address(
    backend: Backend, hand_made: HandMade, path: str
) -> None:
    """Whoever may read one session must not reach another by keeping the first one's cookies."""
    policy = RecordingPolicy()
    ask = Asker(app_of(backend, hand_made.opened(), policy=policy))
    for name, value in (
        ("cluster_namespace", "mine"), ("cluster_name", "mine"), ("session_name", "latest"),
    ):  # fmt: skip
        ask.client.set_cookie(name, value)
    assert ask.get(path).status_code == 200
    (asked,) = policy.asked
    assert asked.selection is not None
    assert asked.selection.namespace == REF.namespace


def test_a_session_that_the_policy_refuses_shows_no_facts(
    backend: Backend, hand_made: HandMade
) -> None:
    """The page of a session's facts is as closed as its tasks; the list stays open."""

    class OnlyLists:
        def decide(self, request: AccessRequest) -> Decision:
            return Decision(allowed=request.purpose is not Purpose.SESSION, reason="not yours")

    ask = Asker(app_of(backend, hand_made.opened(), policy=OnlyLists()))
    for path in (f"/about/{PLACE}/", f"/enter_cluster/{PLACE}", f"{PREFIX}/api/v0/tasks"):
        assert refused(ask.get(path), "forbidden", status=403) == "not yours"
    assert ask.get("/clusters").status_code == 200


@pytest.mark.parametrize("path", ["/about/ml/nokind/v170/latest/", "/enter_cluster/ml"])
def test_an_address_that_cannot_be_a_session_is_a_bad_selection(
    backend: Backend, hand_made: HandMade, path: str
) -> None:
    """It says what is wrong, and shows nothing."""
    ask = Asker(app_of(backend, hand_made.opened()))
    assert refused(ask.get(path), "bad_selection")
