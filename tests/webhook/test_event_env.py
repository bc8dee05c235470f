"""The variables that make Ray send its events, checked against the installed Ray itself."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.webhook.samples import SETTINGS, facts, sample
from webhook.event_sink import EXPORT_ADDRESS, event_sink
from webhook.patches import patched
from webhook.patches.event_env import (
    EVENT_TYPES,
    FILTER,
    GUIDES_FILTER,
    SWITCHES,
    driver_env,
    event_env,
    event_types,
)


def by_name(env: list[dict[str, Any]]) -> dict[str, str]:
    """Values by name."""
    return {variable["name"]: variable["value"] for variable in env}


def test_list_has_every_type_of_the_installed_ray() -> None:
    """A type that Ray has and the list lacks would be lost where `ALL` is not known to work."""
    base = importlib.import_module("ray.core.generated.events_base_event_pb2")
    names = set(base.RayEvent.EventType.keys()) - {"EVENT_TYPE_UNSPECIFIED"}
    assert names <= set(EVENT_TYPES)


@pytest.mark.parametrize("image", ["rayproject/ray:2.55.1", "registry.example/app:3"])
def test_installed_ray_lets_every_type_pass(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both values, read by Ray's own publisher; task profiles too, which its default leaves out."""
    module = importlib.import_module(
        "ray.dashboard.modules.aggregator.publisher.async_publisher_client"
    )
    base = importlib.import_module("ray.core.generated.events_base_event_pb2")
    monkeypatch.setattr(module, "HTTP_EXPOSABLE_EVENT_TYPES", event_types(image))
    client = module.AsyncHttpPublisherClient(endpoint="http://localhost:1/v1/events", executor=None)
    for number in base.RayEvent.EventType.values():
        if number:
            assert client._can_expose_event(base.RayEvent(event_type=number))


@pytest.mark.parametrize(
    ("image", "value"),
    [
        ("rayproject/ray:2.55.1", "ALL"),
        ("mirror.example/rayproject/ray-ml:2.60.0-py311-gpu@sha256:00", "ALL"),
        ("docker.io/rayproject/ray:10.0.0", "ALL"),
        ("rayproject/ray:2.53.0", None),
        ("rayproject/ray:2.9.3", None),
        ("rayproject/ray:nightly", None),
        ("rayproject/ray", None),
        ("registry.example/app:2.55.1", None),
        ("notrayproject/ray:2.55.1", None),
        ("", None),
    ],
)
def test_all_only_where_the_image_says_that_ray_knows_it(image: str, value: str | None) -> None:
    """Ray 2.53 takes `ALL` for the name of a type and sends nothing; only Ray's own tags count."""
    assert event_types(image) == (value or ",".join(EVENT_TYPES))


def test_only_what_is_missing_is_added() -> None:
    """Values of the user stay; what Ray does not read follows what it reads."""
    ray = {
        "image": "rayproject/ray:2.55.1",
        "env": [
            {"name": SWITCHES[0], "value": "0"},
            {"name": FILTER, "value": "NODE_LIFECYCLE_EVENT"},
        ],
    }
    assert by_name(event_env(ray, port=9000)) == {
        SWITCHES[1]: "true",
        EXPORT_ADDRESS: "http://localhost:9000/v1/events",
        GUIDES_FILTER: "NODE_LIFECYCLE_EVENT",
    }


def test_filter_of_unknown_value_leaves_the_other_whole() -> None:
    """A value from a ConfigMap cannot be seen."""
    ray = {"env": [{"name": FILTER, "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}]}
    added = by_name(event_env(ray, port=1))
    assert FILTER not in added
    assert added[GUIDES_FILTER] == ",".join(EVENT_TYPES)


def test_guides_filter_alone_does_not_narrow_what_ray_sends() -> None:
    """The GKE guide's variable has no reader in Ray: its list was never in force."""
    ray = {"env": [{"name": GUIDES_FILTER, "value": "TASK_LIFECYCLE_EVENT"}]}
    assert by_name(event_env(ray, port=1))[FILTER] == ",".join(EVENT_TYPES)


def test_switched_off_by_the_user_is_told() -> None:
    """The history will lack tasks; the user reads why."""
    pod = sample("kuberay-1.6-head")
    pod["spec"]["containers"][0]["env"].append({"name": SWITCHES[0], "value": "False"})
    result = patched(pod, facts=facts(), settings=SETTINGS)
    assert result.warnings == (
        f"{SWITCHES[0]} is False on the Ray container: the history lacks tasks and actors",
    )


def test_containers_with_rays_image_get_the_switches_only() -> None:
    """They may run drivers; the autoscaler does not."""
    ray = {"name": "ray-head", "image": "a"}
    assert by_name(driver_env({"name": "notebook", "image": "a"}, ray=ray)) == dict.fromkeys(
        SWITCHES, "true"
    )
    assert driver_env({"name": "autoscaler", "image": "a"}, ray=ray) == []
    assert driver_env({"name": "notebook", "image": "b"}, ray=ray) == []


@pytest.mark.parametrize(
    ("address", "port"),
    [
        ("http://localhost:8084/v1/events", 8084),
        ("http://127.0.0.1:9000/v1/events", 9000),
        ("http://[::1]:9000/v1/events", 9000),
        ("http://LOCALHOST:9000/v1/events", 9000),
        ("https://localhost:9000/v1/events", 0),
        ("http://localhost:9000/other", 0),
        ("http://localhost/v1/events", 0),
        ("http://localhost:80/v1/events", 0),
        ("http://localhost:99999/v1/events", 0),
        ("http://gateway:8084/v1/events", 0),
        ("http://$(POD_IP):8084/v1/events", 0),
        ("", 0),
    ],
)
def test_sinks_of_others_are_told_from_ours(address: str, port: int) -> None:
    """Only a place where our collector may listen is adopted."""
    pod = {
        "spec": {
            "containers": [{"name": "ray", "env": [{"name": EXPORT_ADDRESS, "value": address}]}]
        }
    }
    sink = event_sink(pod)
    assert sink is not None
    assert (sink.port, sink.is_foreign) == (port, port == 0)


def test_sink_on_a_declared_port_is_anothers() -> None:
    """A container of the user takes the events; our own declaration does not count."""
    other = {"name": "sink", "ports": [{"containerPort": 8084}]}
    env = [{"name": EXPORT_ADDRESS, "value": "http://localhost:8084/v1/events"}]
    pod = {"spec": {"containers": [{"name": "ray", "env": env}, other]}}
    declared, own = event_sink(pod), event_sink(pod, ours=other)
    assert declared is not None
    assert declared.is_foreign
    assert own is not None
    assert own.port == 8084


@pytest.mark.parametrize("name", ["user-events-elsewhere", "user-host-network"])
def test_logs_only_leaves_rays_events_alone(name: str) -> None:
    """No variable of Ray changes, and the collector takes no events."""
    pod = sample(name)
    result = patched(pod, facts=facts(), settings=SETTINGS)
    ray = result.pod["spec"]["containers"][0]
    assert ray["env"] == pod["spec"]["containers"][0]["env"]
    collector = result.pod["spec"]["initContainers"][-1]
    assert {"name": "ENABLE_EVENT_COLLECTOR", "value": "false"} in collector["env"]
    assert result.events_port == 0
    assert len(result.warnings) == 1
