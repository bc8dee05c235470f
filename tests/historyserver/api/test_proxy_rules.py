"""What Ray's dashboard with --proxy-server-url needs: no 404 on API paths, no redirects, cookies."""

from __future__ import annotations

import pytest

from storage.backend import Backend
from storage.layout import SessionRef
from tests.historyserver.asking import Asker, refused
from tests.historyserver.hand_made import PREFIX, REF, SESSION, HandMade, app_of, entry_of
from tests.historyserver.policies import DenyPolicy

PROXIED = {"Content-Type": "application/json"}
"""What Ray's proxy adds to a request without a content type."""
API_PATHS = (
    "/api/jobs/",
    "/api/jobs/nope",
    "/api/v0/tasks?limit=1",
    "/api/v0/nothing",
    "/api/doesnotexist",
    "/api/v0/logs/file?node_id=x&filename=y",
    "/api/v0/logs/whatever",
    "/nodes/unknown",
    "/nodes/a/b",
    "/logical/actors/unknown",
    "/logical/nothing",
    "/events",
    "/timezone",
    "/task/traceback?task_id=1",
    "/memory_profile",
    "/api/actors/kill?actor_id=1",
    "/api/v0/delay/5",
    "/enter_cluster/no/such/thing/at/all",
    "/enter_cluster/ml/raycluster/nope",
    "/clusters",
)


@pytest.fixture
def ask(backend: Backend, hand_made: HandMade) -> Asker:
    """A client of an app with one session, as the dashboard's proxy is one."""
    return Asker(app_of(backend, hand_made.opened()))


@pytest.mark.parametrize("path", API_PATHS)
@pytest.mark.parametrize("chosen", [True, False])
def test_no_api_path_answers_404_or_redirects(ask: Asker, path: str, chosen: bool) -> None:
    """404 would show the local cluster; a redirect would be followed and lose its cookies."""
    if chosen:
        ask.get("/enter_cluster/ml/raycluster/v170")
    response = ask.get(path, headers=PROXIED)
    assert response.status_code in (200, 400, 503)
    if response.status_code != 200:
        body = response.get_json()
        assert body["result"] is False
        assert body["msg"] == body["data"]["error"]["detail"]


@pytest.mark.parametrize(
    "path", ["/", "/static/js/main.js", "/favicon.ico", "/speedscope-1.5.3/index.html"]
)
def test_the_local_dashboard_s_own_files_are_left_to_it(ask: Asker, path: str) -> None:
    """With a session chosen or not: its page must not turn into our list."""
    assert ask.get(path, headers=PROXIED).status_code == 404
    ask.get("/enter_cluster/ml/raycluster/v170")
    assert ask.get(path, headers=PROXIED).status_code == 404


def test_a_browser_at_our_own_address_gets_the_list(ask: Asker) -> None:
    """No browser sends a content type with a GET."""
    response = ask.get("/", headers={"Accept": "text/html"})
    assert response.status_code == 200
    assert "v170" in response.get_data(as_text=True)


@pytest.mark.parametrize(
    "path",
    [
        "/enter_cluster/ml/raycluster/v170",
        "/enter_cluster/ml/raycluster/v170/",
        f"/enter_cluster/ml/raycluster/v170/{SESSION}",
        f"/enter_cluster/ml/raycluster/v170/{SESSION}/",
        "/enter_cluster/ml/raycluster/v170/latest",
        "/enter_cluster/ml/raycluster/v170/live",
        f"/enter_cluster/ml/v170/{SESSION}",
        "/enter_cluster/ml/v170",
    ],
)
def test_entering_a_cluster_sets_cookies_that_choose_it(ask: Asker, path: str) -> None:
    """200 and Set-Cookie in every form; afterwards the API knows the session."""
    response = ask.get(path, headers=PROXIED)
    assert response.status_code == 200
    body = response.get_json()
    assert {key: body[key] for key in ("result", "name", "namespace", "session")} == {
        "result": "success",
        "name": "v170",
        "namespace": "ml",
        "session": SESSION,
    }
    cookies = response.headers.getlist("Set-Cookie")
    assert any(cookie.startswith("cluster_name=v170;") for cookie in cookies)
    assert all("Path=/" in cookie and "SameSite=Lax" in cookie for cookie in cookies)
    assert ask.get("/api/version").get_json()["session_name"] == SESSION


def test_entering_another_cluster_forgets_the_owner_of_the_one_before(
    backend: Backend, hand_made: HandMade
) -> None:
    """An old `owner_kind` cookie would choose the wrong session."""
    owned = SessionRef("ml", "job-x7k2p", SESSION, "rayjob", "job")
    plain = hand_made.opened()
    ask = Asker(app_of(backend, plain, entries=[entry_of(owned), entry_of(REF)]))
    first = ask.get("/enter_cluster/ml/rayjob/job")
    assert "owner_name=job; HttpOnly; Path=/; SameSite=Lax" in first.headers.getlist("Set-Cookie")
    ask.get("/enter_cluster/ml/raycluster/v170")
    assert ask.client.get_cookie("owner_name") is None
    assert ask.get("/timezone").status_code == 200


def test_the_list_has_kuberay_s_fields(ask: Asker) -> None:
    """A bare array, with and without the last slash."""
    for path in ("/clusters", "/clusters/"):
        (row,) = ask.get(path).get_json()
        expected = {
            "name": "v170",
            "namespace": "ml",
            "sessionName": SESSION,
            "createTime": "2026-11-30T21:46:10Z",
            "createTimeStamp": 1796075170,
        }
        assert {key: row[key] for key in expected} == expected
        assert "ownerKind" not in row
        assert ask.get(row["link"]).status_code in (200, 503)


def test_the_list_is_not_cut_at_a_hundred(backend: Backend) -> None:
    """KubeRay's is."""
    entries = [entry_of(SessionRef("ml", f"c-{n}", SESSION)) for n in range(500)]
    assert len(Asker(app_of(backend, entries=entries)).get("/clusters").get_json()) == 500


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE"])
def test_nothing_can_be_changed(ask: Asker, method: str) -> None:
    """One JSON error for all, whether the path exists or not."""
    for path in ("/api/jobs/", f"{PREFIX}/api/jobs/x/stop", "/", "/nothing"):
        response = ask.client.open(path, method=method)
        refused(response, "read_only", status=405)
        assert response.headers["Allow"] == "GET, HEAD, OPTIONS"


def test_without_a_choice_the_answer_says_what_to_do(ask: Asker) -> None:
    """The three ways."""
    message = refused(ask.get("/api/jobs/"), "no_session_chosen")
    for part in ("first page", "/enter_cluster/", "x-ray-history-session"):
        assert part in message


def test_a_header_chooses_for_one_request(ask: Asker) -> None:
    """For programs without cookies."""
    headers = {"x-ray-history-session": f"ml/raycluster/v170/{SESSION}"}
    assert ask.get("/timezone", headers=headers).status_code == 200
    refused(ask.get("/timezone"), "no_session_chosen")
    headers = {"x-ray-history-session": "ml/raycluster/v170/session_x/more"}
    refused(ask.get("/timezone", headers=headers), "bad_selection")


def test_a_session_that_is_not_there_is_told_so(ask: Asker) -> None:
    """Not 404, also by a stale cookie."""
    ask.client.set_cookie("cluster_name", "gone")
    ask.client.set_cookie("cluster_namespace", "ml")
    ask.client.set_cookie("session_name", SESSION)
    assert "cookie" in refused(ask.get("/api/jobs/"), "session_not_found")


def test_no_route_is_outside_of_the_access_check(backend: Backend, hand_made: HandMade) -> None:
    """With a policy that refuses everything, every route of the app answers 403 and no data."""
    app = app_of(backend, hand_made.opened(), policy=DenyPolicy())
    ask = Asker(app)
    rules = [rule for rule in app.flask_app.url_map.iter_rules() if "GET" in (rule.methods or ())]
    assert len(rules) > 40
    session = {"namespace": "ml", "kind": "raycluster", "name": "v170", "session": SESSION}
    known = session | {"chosen": "/".join(session.values())}  # a bad one is refused before
    for rule in rules:
        path = str(rule)
        for part in rule.arguments:
            for form in (f"<{part}>", f"<path:{part}>", f"<string:{part}>"):
                path = path.replace(form, known.get(part, "x"))
        for address in (path, PREFIX + path):
            assert ask.get(address).status_code == 403, rule


def test_a_view_that_answers_around_the_check_is_stopped(
    backend: Backend, hand_made: HandMade
) -> None:
    """A hook that answers before the check (a mistake in the future) becomes a 500."""
    app = app_of(backend, hand_made.opened())
    hooks = app.flask_app.before_request_funcs[None]
    hooks.insert(0, lambda: "secret")
    response = Asker(app).get("/healthz")
    assert response.status_code == 500
    assert b"secret" not in response.data
