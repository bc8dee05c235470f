"""Which session a request means."""

from __future__ import annotations

from typing import Any

import pytest

from historyserver.http.selection import (
    ENVIRON_ERROR,
    ENVIRON_KEY,
    ENVIRON_NO_SLASH,
    LATEST,
    Selection,
    SelectionError,
    SelectionPrefix,
    SelectionSource,
    cookies_for,
    of_request,
    parse_enter,
)
from storage.layout import SessionRef

SESSION = "session_2026-11-30_21-46-10_843035_1"


def moved(path: str, script_name: str = "") -> dict[str, Any]:
    """The environ that the app below the prefix middleware sees."""
    seen: dict[str, Any] = {}

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        del start_response
        seen.update(environ)
        return []

    SelectionPrefix(app)({"PATH_INFO": path, "SCRIPT_NAME": script_name}, None)
    return seen


@pytest.mark.parametrize(
    ("segments", "kind", "name", "session"),
    [
        (["ml", "raycluster", "v170"], "raycluster", "v170", LATEST),
        (["ml", "rayjob", "train", SESSION], "rayjob", "train", SESSION),
        (["ml", "RayService", "chat", "live"], "rayservice", "chat", "live"),
        (["ml", "v162", SESSION], "raycluster", "v162", SESSION),
        (["ml", "v162", "live"], "raycluster", "v162", "live"),
        (["ml", "raycluster", SESSION], "raycluster", "raycluster", SESSION),
        (["ml", "v162"], "raycluster", "v162", LATEST),
    ],
)
def test_every_release_s_form_of_enter_cluster_is_told_apart(
    segments: list[str], kind: str, name: str, session: str
) -> None:
    """The forms of KubeRay 1.6, 1.7 and the nightlies between, also where they collide."""
    chosen = parse_enter(segments)
    assert (chosen.namespace, chosen.kind, chosen.name, chosen.session) == (
        "ml",
        kind,
        name,
        session,
    )


@pytest.mark.parametrize(
    "segments",
    [
        ["ml"],
        ["ml", "raypod", "x", SESSION],
        ["ml", "v162", "nonsense"],
        ["..", "raycluster", "x", SESSION],
        ["ml", "raycluster", "a\0b", SESSION],
        ["ml", "raycluster", "x", "session_../../etc"],
        ["ml", "raycluster", "x", SESSION, "more"],
    ],
)
def test_a_form_that_cannot_be_a_session_is_refused(segments: list[str]) -> None:
    """Hostile or broken names never become a selection."""
    with pytest.raises(SelectionError):
        parse_enter(segments)


@pytest.mark.parametrize(("namespace", "name"), [("my_ns", "v162"), ("ml", "RayDemo")])
def test_every_name_that_storage_holds_can_be_linked(namespace: str, name: str) -> None:
    """KubeRay's first collector checked no names: what is listed must open."""
    link = f"/s/{namespace}/raycluster/{name}/{SESSION}/"
    chosen = moved(link)[ENVIRON_KEY]
    assert SessionRef(chosen.namespace, chosen.name, chosen.session) == SessionRef(
        namespace, name, SESSION
    )


def test_the_prefix_moves_to_script_name_and_the_rest_stays() -> None:
    """Routes below see their own path, under a server prefix too."""
    environ = moved(f"/s/ml/raycluster/v170/{SESSION}/api/v0/tasks", script_name="/ray")
    assert environ["PATH_INFO"] == "/api/v0/tasks"
    assert environ["SCRIPT_NAME"] == f"/ray/s/ml/raycluster/v170/{SESSION}"
    assert environ[ENVIRON_KEY] == Selection("ml", "raycluster", "v170", SESSION)
    assert not environ[ENVIRON_NO_SLASH]


@pytest.mark.parametrize(
    ("path", "session", "no_slash"),
    [
        (f"/s/ml/raycluster/v170/{SESSION}", SESSION, True),
        (f"/s/ml/raycluster/v170/{SESSION}/", SESSION, False),
        ("/s/ml/raycluster/v170/", LATEST, True),
        ("/s/ml/raycluster/v170", LATEST, True),
    ],
)
def test_a_missing_slash_or_session_is_marked(path: str, session: str, no_slash: bool) -> None:
    """The page then redirects to the address that lasts."""
    environ = moved(path)
    assert environ["PATH_INFO"] == "/"
    assert environ[ENVIRON_KEY].session == session
    assert environ[ENVIRON_NO_SLASH] is no_slash


def test_a_bad_prefix_is_an_error_and_no_selection() -> None:
    """The reason is kept for the answer."""
    environ = moved("/s/ml/pod/x/session_1/api/jobs/")
    assert ENVIRON_KEY not in environ
    assert "kind" in environ[ENVIRON_ERROR]
    with pytest.raises(SelectionError, match="kind"):
        of_request(environ, headers={}, cookies={})


def test_the_path_wins_over_the_header_and_that_over_cookies() -> None:
    """What was said for this very request stands before what a browser carries along."""
    path = Selection("a", "raycluster", "by-path", SESSION)
    header = {"x-ray-history-session": f"b/rayjob/by-header/{SESSION}"}
    cookies = cookies_for(Selection("c", "raycluster", "by-cookie", SESSION), cluster="by-cookie")
    chosen = of_request({ENVIRON_KEY: path}, headers=header, cookies=cookies)
    assert chosen is path
    chosen = of_request({}, headers=header, cookies=cookies)
    assert chosen == Selection("b", "rayjob", "by-header", SESSION, SelectionSource.HEADER)
    chosen = of_request({}, headers={}, cookies=cookies)
    assert chosen == Selection("c", "raycluster", "by-cookie", SESSION, SelectionSource.COOKIE)
    assert of_request({}, headers={}, cookies={}) is None


def test_cookies_of_an_owned_cluster_come_back_as_its_owner() -> None:
    """`owner_kind` and `owner_name` are KubeRay 1.7's; the cluster's own name goes along."""
    chosen = Selection("ml", "rayjob", "train", SESSION)
    cookies = cookies_for(chosen, cluster="train-x7k2p")
    assert cookies["cluster_name"] == "train-x7k2p"
    back = of_request({}, headers={}, cookies=cookies)
    assert back == Selection("ml", "rayjob", "train", SESSION, SelectionSource.COOKIE)


def test_the_three_cookies_of_an_old_client_are_enough() -> None:
    """KubeRay 1.6 knows no owner."""
    cookies = {"cluster_name": "v162", "cluster_namespace": "ml", "session_name": SESSION}
    chosen = of_request({}, headers={}, cookies=cookies)
    assert chosen is not None
    assert (chosen.kind, chosen.name) == ("raycluster", "v162")


def test_a_header_of_another_form_is_refused() -> None:
    """A program gets told what the header should be."""
    with pytest.raises(SelectionError, match="namespace/kind/name/session"):
        of_request({}, headers={"x-ray-history-session": "ml/v170"}, cookies={})
