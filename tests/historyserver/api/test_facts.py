"""Version, time zone, health, Serve, Data and Train: stored answers and their absence."""

from __future__ import annotations

import pytest

from storage.backend import Backend
from tests.historyserver.asking import Asker, refused
from tests.historyserver.hand_made import SESSION, HandMade, app_of


def asker(backend: Backend, made: HandMade) -> Asker:
    """A client of an app with that session."""
    return Asker(app_of(backend, made.opened()))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/timezone", "/timezone"),
        ("/api/version", "/api/version"),
        ("/api/version", "/api/ray/version"),
        ("/cluster_id", "/cluster_id"),
        ("/usage_stats_enabled", "/usage_stats_enabled"),
        ("/api/serve/applications/", "/api/serve/applications/"),
        ("/api/serve/applications", "/api/serve/applications/"),
        ("/api/data/datasets/02000000", "/api/data/datasets/02000000"),
        ("/api/train/v2/runs/v1", "/api/train/v2/runs/v1"),
        ("/api/train/v2/runs/v1", "/api/train/v2/runs"),
    ],
)
def test_what_was_stored_is_answered_as_it_was(
    backend: Backend, hand_made: HandMade, name: str, path: str
) -> None:
    """Field for field, whatever Ray's release put into it; with and without the last slash."""
    body = {"anything": [1, {"nested": None}], "unicode": "ü"}
    ask = asker(backend, hand_made.snapshot(name, body))
    assert ask.json(path) == body
    assert ask.json(path.rstrip("/")) == body


def test_what_was_not_stored_is_empty_in_the_right_shape(
    backend: Backend, hand_made: HandMade
) -> None:
    """KubeRay's sessions carry little of this; the UI must still work."""
    ask = asker(backend, hand_made)
    assert ask.json("/timezone") == {"offset": "", "value": ""}
    assert ask.json("/api/serve/applications/")["applications"] == {}
    assert ask.json("/api/data/datasets/01000000") == {"datasets": []}
    assert ask.json("/api/train/v2/runs/v1") == {"train_runs": []}
    assert ask.json("/api/version") == {
        "version": "4",
        "ray_version": "2.55.1",
        "ray_commit": "",
        "session_name": SESSION,
    }
    assert ask.json("/usage_stats_enabled")["data"]["usageStatsEnabled"] is False
    assert ask.json("/cluster_id")["result"] is True


def test_metrics_are_told_to_be_off_without_an_error(backend: Backend, hand_made: HandMade) -> None:
    """A 500 would be tolerated by the UI but shown in the browser's console."""
    ask = asker(backend, hand_made)
    assert ask.json("/api/grafana_health")["data"]["grafanaHost"] == "DISABLED"
    assert ask.json("/api/prometheus_health")["result"] is False


def test_probes_of_newer_uis_are_answered(backend: Backend, hand_made: HandMade) -> None:
    """Ray 2.56 to 2.60 ask for these on load."""
    ask = asker(backend, hand_made)
    assert ask.json("/api/profiling_enabled")["data"]["profilingEnabled"] is False
    assert ask.json("/api/v0/runtime_env_redaction")["data"]["redactionEnabled"] is False
    assert ask.json("/api/v0/platform_events")["data"]["result"]["result"] == []


def test_ray_s_authentication_is_off(backend: Backend, hand_made: HandMade) -> None:
    """The UI's token dialog stays shut; a login by it is refused as live Ray refuses it."""
    ask = asker(backend, hand_made)
    assert ask.json("/api/authentication_mode") == {"authentication_mode": "disabled"}
    assert ask.get("/api/authentication_mode").status_code == 200
    refused(ask.client.post("/api/authenticate"), "forbidden", status=401)


def test_a_stored_session_does_not_pretend_to_be_healthy(
    backend: Backend, hand_made: HandMade
) -> None:
    """Monitoring that looks for a live GCS must not find one."""
    ask = asker(backend, hand_made)
    for path in ("/api/gcs_healthz", "/api/healthz", "/api/local_raylet_healthz"):
        refused(ask.session(path), "not_kept", status=503)


def test_own_probes_and_metrics(backend: Backend, hand_made: HandMade) -> None:
    """For Kubernetes and Prometheus, with KubeRay's names too."""
    ask = asker(backend, hand_made)
    for path in ("/healthz", "/livez", "/readyz", "/readz"):
        assert (ask.get(path).status_code, ask.get(path).data) == (200, b"ok")
    ask.session("/timezone")
    page = ask.get("/metrics").get_data(as_text=True)
    assert 'rayhistory_server_requests_total{route="/timezone",status="200"} 1.0' in page
    assert 'rayhistory_server_answers_total{outcome="made"} 1.0' in page
    assert "rayhistory_server_answer_cache_bytes" in page
    assert "rayhistory_server_catalogue_age_seconds +Inf" in page
