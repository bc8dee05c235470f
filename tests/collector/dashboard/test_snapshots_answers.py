"""Which answers of the dashboard replace the kept one."""

from __future__ import annotations

import pytest

from collector.dashboard.endpoints import (
    ENDPOINTS,
    Endpoint,
    Seen,
    datasets,
    endpoints_for,
    is_kept_by_kuberay,
    node_detail,
)
from collector.dashboard.judging import (
    Rejection,
    decoded,
    digest,
    head_is_alive,
    learn,
    usable,
    worse,
)
from storage import endpoints


def endpoint(name: str) -> Endpoint:
    return next(one for one in ENDPOINTS if one.name == name)


def state_answer(*rows: dict[str, object], warning: str | None = None) -> object:
    return {"data": {"result": {"result": list(rows), "partial_failure_warning": warning}}}


def summary(*nodes: dict[str, object]) -> object:
    return {"data": {"summary": list(nodes)}}


def node(node_id: str, state: str, *, stats: bool) -> dict[str, object]:
    found: dict[str, object] = {"raylet": {"nodeId": node_id, "state": state}}
    return {**found, "hostname": "h", "cpu": 1.0} if stats else found


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b'{"result": true, "data": {}}', None),
        (200, b'[{"job_id": "01000000"}]', None),
        (200, b'{"applications": {}}', None),
        (200, b'"text"', None),
        (200, b'{"result": false, "msg": "GCS is gone"}', Rejection.RESULT_FALSE),
        (200, b"<html>", Rejection.NOT_JSON),
        (200, b'{"cut": ', Rejection.NOT_JSON),
        (200, b"", Rejection.NOT_JSON),
        (200, b'{"result": "yes"}', Rejection.NOT_JSON),
        (500, b"{}", Rejection.STATUS),
        (404, b"{}", Rejection.STATUS),
        (302, b"", Rejection.STATUS),
        (401, b"{}", Rejection.DENIED),
        (403, b"{}", Rejection.DENIED),
        (200, b"[" * 100_000, Rejection.NOT_JSON),
    ],
)
def test_only_good_answers_count(status: int, body: bytes, expected: Rejection | None) -> None:
    """200, JSON, and a result that is not false."""
    assert usable(status, body) is expected


def test_serve_emptied_at_shutdown_does_not_replace() -> None:
    """The controller goes first; its `applications: {}` says nothing about the session."""
    full: object = {"applications": {"app": {}}}
    empty: object = {"applications": {}}
    assert (
        worse(endpoint(endpoints.SERVE), full, empty, final=True, rejected_before=9)
        is Rejection.EMPTIER
    )
    assert (
        worse(endpoint(endpoints.SERVE), full, empty, final=False, rejected_before=0)
        is Rejection.EMPTIER
    )


def test_serve_emptied_for_good_while_ray_runs_is_believed() -> None:
    """The user deleted the application: the live dashboard shows none, so do we."""
    full: object = {"applications": {"app": {}}}
    empty: object = {"applications": {}}
    assert worse(endpoint(endpoints.SERVE), full, empty, final=False, rejected_before=2) is None


def test_what_never_vanishes_is_never_believed_empty() -> None:
    """Placement groups, jobs, actors and nodes stay listed when they are over."""
    full, empty = state_answer({"placement_group_id": "a"}), state_answer()
    for final in (True, False):
        groups = endpoint(endpoints.PLACEMENT_GROUPS)
        assert worse(groups, full, empty, final=final, rejected_before=9) is Rejection.EMPTIER
        jobs = endpoint(endpoints.JOBS)
        assert (
            worse(jobs, [{"job_id": "1"}], [], final=final, rejected_before=9) is Rejection.EMPTIER
        )


def test_freed_objects_are_believed_while_ray_runs() -> None:
    """Objects come and go."""
    full, empty = state_answer({"object_id": "a"}), state_answer()
    assert worse(endpoint(endpoints.OBJECTS), full, empty, final=False, rejected_before=2) is None
    assert (
        worse(endpoint(endpoints.OBJECTS), full, empty, final=True, rejected_before=0)
        is Rejection.EMPTIER
    )


def test_partial_answer_at_the_end_does_not_replace() -> None:
    """Ray tells that a raylet did not answer."""
    full = state_answer({"object_id": "a"}, {"object_id": "b"})
    part = state_answer({"object_id": "a"}, warning="1 raylet did not answer")
    assert (
        worse(endpoint(endpoints.OBJECTS), full, part, final=True, rejected_before=0)
        is Rejection.PARTIAL
    )
    assert worse(endpoint(endpoints.OBJECTS), full, part, final=False, rejected_before=0) is None


def test_living_node_without_hardware_does_not_replace() -> None:
    """Its agent is gone, or the dashboard has just begun."""
    old = summary(node("a", "ALIVE", stats=True), node("b", "ALIVE", stats=True))
    new = summary(node("a", "ALIVE", stats=False), node("b", "ALIVE", stats=True))
    summaries = endpoint(endpoints.NODE_SUMMARY)
    assert worse(summaries, old, new, final=False, rejected_before=0) is Rejection.LOST_STATS
    assert worse(summaries, old, new, final=False, rejected_before=2) is None
    assert worse(summaries, old, new, final=True, rejected_before=9) is Rejection.LOST_STATS
    assert worse(summaries, old, summary(), final=False, rejected_before=9) is Rejection.EMPTIER


def test_dead_worker_without_hardware_replaces() -> None:
    """That a node died is news, and Ray drops its figures."""
    old = summary(node("a", "ALIVE", stats=True), node("b", "ALIVE", stats=True))
    new = summary(node("a", "ALIVE", stats=True), node("b", "DEAD", stats=False))
    assert worse(endpoint(endpoints.NODE_SUMMARY), old, new, final=False, rejected_before=0) is None


def test_node_page_without_hardware_does_not_replace() -> None:
    """The same for the page of one node."""
    page = node_detail("a", nodes=1)
    old = {"data": {"detail": {"hostname": "h", "raylet": {"state": "ALIVE"}}}}
    new: object = {"data": {"detail": {"raylet": {}}}}
    assert worse(page, old, new, final=True, rejected_before=0) is Rejection.LOST_STATS
    dead = {"data": {"detail": {"raylet": {"state": "DEAD"}}}}
    assert worse(page, old, dead, final=False, rejected_before=0) is None


def test_job_without_datasets_is_not_kept() -> None:
    """Every job would have an empty answer otherwise."""
    empty: object = {"datasets": []}
    assert worse(datasets("01"), None, empty, final=False, rejected_before=9) is Rejection.EMPTIER


def test_first_answer_is_taken_as_it_is() -> None:
    """Nothing to compare with."""
    assert (
        worse(
            endpoint(endpoints.PLACEMENT_GROUPS),
            None,
            state_answer(),
            final=False,
            rejected_before=0,
        )
        is None
    )


@pytest.mark.parametrize("odd", [None, 1, "x", [], {}, {"data": 3}, {"data": {"summary": {}}}])
def test_odd_shapes_raise_nothing(odd: object) -> None:
    """A Ray with other answers than we know stops no polling."""
    for one in (*ENDPOINTS, node_detail("a", nodes=1), datasets("01")):
        worse(one, odd, odd, final=True, rejected_before=0)
        worse(one, {"data": {"summary": [1, {"raylet": 2}]}}, odd, final=True, rejected_before=0)
        learn(Seen(), one.name, odd)
    assert not head_is_alive(odd, "a")


def test_clocks_and_loads_are_no_change() -> None:
    """Otherwise every poll would be an upload."""
    old = {"now": 1.5, "cpu": 3.0, "raylet": {"state": "ALIVE", "storeStats": {"x": 1}}, "pid": 7}
    new = {"now": 2.5, "cpu": 9.0, "raylet": {"state": "ALIVE", "storeStats": {"x": 2}}, "pid": 7}
    dead = {"now": 2.5, "cpu": 9.0, "raylet": {"state": "DEAD", "storeStats": {"x": 2}}, "pid": 7}
    assert digest(old, b"a") == digest(new, b"b") != digest(dead, b"c")
    text = (
        "======== Autoscaler status: 2026-11-30 20:05:{}.884326 ========\nNode status" + " " * 200
    )
    assert digest(text.format("01"), b"") == digest(text.format("55"), b"")


def test_huge_answer_is_compared_as_it_is() -> None:
    """Decoding it would take ten times its size."""
    body = b'{"x": "' + b"y" * (17 * 1024 * 1024) + b'"}'
    assert decoded(body) is None
    assert digest(None, body) != digest(None, body + b" ")


def test_serve_data_and_train_are_asked_only_when_used() -> None:
    """Their endpoints start drivers in the dashboard and take half a second."""
    seen = Seen()
    learn(seen, endpoints.JOBS, [{"job_id": "01000000", "status": "RUNNING"}])
    names = {one.name for one in endpoints_for(seen)}
    assert not any("serve" in name or "train" in name or "datasets" in name for name in names)
    actors = {
        "a": {"name": "SERVE_CONTROLLER_ACTOR", "state": "ALIVE"},
        "b": {"className": "_StatsActor", "state": "ALIVE"},
        "c": {"name": "train_v2_state_actor", "state": "ALIVE"},
    }
    learn(seen, endpoints.ACTOR_TABLE, {"data": {"actors": actors}})
    names = {one.name for one in endpoints_for(seen)}
    assert {endpoints.SERVE, "/api/train/v2/runs/v1", "/api/data/datasets/01000000"} <= names
    for actor in actors.values():
        actor["state"] = "DEAD"
    learn(seen, endpoints.ACTOR_TABLE, {"data": {"actors": actors}})
    assert endpoints.SERVE not in {one.name for one in endpoints_for(seen)}


def test_tasks_are_never_asked() -> None:
    """They cost seconds, and events tell all of it."""
    assert not any("tasks" in one.name for one in endpoints_for(Seen(serve=True, train=True)))


def test_each_node_is_asked_seldomer_the_more_there_are() -> None:
    """Their pages are large."""
    assert node_detail("a", nodes=2).every_s == 10
    assert node_detail("a", nodes=1000).every_s == 60


def test_head_alive_is_read_from_the_list_of_nodes() -> None:
    """It must be there, and alive."""
    rows = state_answer({"node_id": "a", "state": "ALIVE"}, {"node_id": "b", "state": "DEAD"})
    assert head_is_alive(rows, "a")
    assert not head_is_alive(rows, "b")
    assert not head_is_alive(rows, "c")


def test_kuberay_keeps_these() -> None:
    """The ones whose `fetched_endpoints` its server reads."""
    kept = {one.name for one in ENDPOINTS if is_kept_by_kuberay(one.name)}
    assert kept == {
        endpoints.PLACEMENT_GROUPS,
        endpoints.SERVE,
        "/api/v0/cluster_metadata",
        "/timezone",
    }
    assert is_kept_by_kuberay("/api/data/datasets/02000000")


def test_table_has_every_name_once() -> None:
    """Names are keys."""
    names = [one.name for one in ENDPOINTS]
    assert len(names) == len(set(names))
    assert endpoints.NODES in names
