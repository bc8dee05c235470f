"""The routes of tasks, actors, jobs, nodes and the rest, through the whole app."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.compiled_samples import compile_kuberay_sample, kuberay_live
from tests.historyserver.api.serving import asker_of
from tests.historyserver.asking import Asker, refused
from tests.historyserver.queries.ray_answers import live

JOB = "03000000"
STATE_LISTS = ("tasks", "actors", "jobs", "nodes", "placement_groups", "workers", "objects",
               "runtime_envs")  # fmt: skip


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """A client of a server with the session of KubeRay's 1.7 collector."""
    folder = tmp_path_factory.mktemp("served")
    compiled = compile_kuberay_sample("v170", folder / "compiled")
    yield asker_of(compiled, folder)
    compiled.close()


def rows(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a State API answer."""
    found: list[dict[str, Any]] = answer["data"]["result"]["result"]
    return found


@pytest.mark.parametrize("resource", STATE_LISTS)
@pytest.mark.parametrize("detail", ["detail=1", "detail=True", "detail=False", ""])
def test_every_state_list_answers(asker: Asker, resource: str, detail: str) -> None:
    """As the dashboard and the CLI ask; KubeRay's server has 404 for most (fault 12)."""
    query = f"limit=10000&timeout=24&exclude_driver=True&server_timeout_multiplier=0.8&{detail}"
    answer = asker.json(f"/api/v0/{resource}?{query}")
    assert answer["result"] is True
    assert set(answer["data"]["result"]) == {
        "total", "num_after_truncation", "num_filtered", "result", "partial_failure_warning",
        "warnings",
    }  # fmt: skip


@pytest.mark.parametrize("resource", STATE_LISTS)
@pytest.mark.parametrize(
    "query",
    [
        "limit=20000",
        "limit=x",
        "detail=perhaps",
        "filter_keys=nokey&filter_predicates=%3D&filter_values=x",
        "filter_keys=job_id",
        "filter_keys=job_id&filter_predicates=~&filter_values=x",
    ],
)
def test_bad_options_are_refused_in_one_shape(asker: Asker, resource: str, query: str) -> None:
    """400 with words, never a stack trace and never 404."""
    assert refused(asker.session(f"/api/v0/{resource}?{query}"), "bad_request")


@pytest.mark.parametrize(
    "value", ["%ff", "%00", "%ed%a0%80", "%F0%9F%99%82", "..%2f..", "a" * 5000]
)
@pytest.mark.parametrize("key", ["name", "task_id", "job_id", "state"])
def test_any_bytes_can_be_a_filter_value(asker: Asker, key: str, value: str) -> None:
    """They match nothing; they break nothing."""
    query = f"filter_keys={key}&filter_predicates=%3D&filter_values={value}"
    assert rows(asker.json(f"/api/v0/tasks?{query}")) == []


@pytest.mark.parametrize("name", ["%ff", "%00", "..", "a" * 5000, "%F0%9F%99%82"])
def test_any_bytes_can_be_an_id(asker: Asker, name: str) -> None:
    """An unknown entity, whatever its name: Ray's answer or an error in one shape."""
    assert asker.json(f"/logical/actors/{name}")["data"]["detail"] is None
    assert asker.json(f"/nodes/{name}")["data"]["detail"]["workers"] == []
    refused(asker.session(f"/api/jobs/{name}"), "not_found")
    refused(asker.session(f"/api/v0/tasks/{name}"), "not_found")


@pytest.mark.parametrize("path", ["/logical/actors", "/nodes", "/api/jobs", "/api/v0/tasks"])
def test_slashes_in_an_id_lead_nowhere(asker: Asker, path: str) -> None:
    """There is no such route, and no 404 either."""
    refused(asker.session(f"{path}/..%2f..%2fetc"), "not_kept")


def test_refusals_have_rays_words(asker: Asker) -> None:
    """Status, result and message begin as Ray's."""
    expected = live("tasks_limit_too_big")
    message = refused(asker.session("/api/v0/tasks?limit=20000"), "bad_request")
    assert message.split(".")[0] == expected["msg"].split(".")[0]


def test_filters_reach_the_query(asker: Asker) -> None:
    """Several at once, as the job page sends them."""
    query = (
        "detail=1&limit=10000&filter_keys=job_id&filter_predicates=%3D&filter_values=03000000"
        "&filter_keys=name&filter_predicates=%21%3D&filter_values=square"
    )
    names = {row["name"] for row in rows(asker.json(f"/api/v0/tasks?{query}"))}
    assert names == {"fails", "Counter.add", "counter:Counter.__init__"}


def test_task_is_found_by_its_id(asker: Asker) -> None:
    """By filter as Ray's page asks, and by path (KubeRay's server: 404)."""
    task_id = next(row["task_id"] for row in rows(asker.json("/api/v0/tasks")))
    by_filter = asker.json(
        f"/api/v0/tasks?detail=1&limit=1&filter_keys=task_id&filter_predicates=%3D&filter_values={task_id}"
    )
    assert asker.json(f"/api/v0/tasks/{task_id}") == by_filter
    refused(asker.session("/api/v0/tasks/nosuch"), "not_found")


def test_pages_through_http(asker: Asker) -> None:
    """`page_token` walks through all tasks."""
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        data = asker.json(f"/api/v0/tasks?limit=5&page_token={token}")["data"]
        seen += [row["task_id"] for row in data["result"]["result"]]
        token = data["next_page_token"]
    assert len(seen) == len(set(seen)) == 13
    refused(asker.session("/api/v0/tasks?page_token=x"), "bad_request")


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize(
    "query", ["", f"&filter_keys=job_id&filter_predicates=%3D&filter_values={JOB}"]
)
def test_lineage_is_sent_as_it_was_prepared(asker: Asker, encoding: str, query: str) -> None:
    """Packed to who takes it packed, plain to others; the same JSON."""
    response = asker.session(
        f"/api/v0/tasks/summarize?summary_by=lineage{query}", headers={"Accept-Encoding": encoding}
    )
    body = response.get_data()
    if encoding == "gzip":
        assert response.headers["Content-Encoding"] == "gzip"
        body = gzip.decompress(body)
    assert json.loads(body) == kuberay_live("v170", "lineage")


def test_lineage_with_another_filter_is_made(asker: Asker) -> None:
    """One failed task."""
    query = "filter_keys=state&filter_predicates=%3D&filter_values=FAILED&summary_by=lineage"
    assert asker.json(f"/api/v0/tasks/summarize?{query}")["data"]["result"]["num_filtered"] == 1


def test_summaries_are_those_that_ray_s_cli_asks_for(asker: Asker) -> None:
    """As `ray summary` asks."""
    assert asker.json("/api/v0/tasks/summarize?timeout=30") == kuberay_live("v170", "summarize")
    assert asker.json("/api/v0/actors/summarize?timeout=30")["data"]["result"]["total"] == 2
    assert asker.json("/api/v0/objects/summarize?timeout=30")["data"]["result"]["total"] == 0
    refused(asker.session("/api/v0/tasks/summarize?summary_by=x"), "bad_request")


def test_timeline_downloads_as_a_file(asker: Asker) -> None:
    """With Ray's file name; odd job ids cannot break the header."""
    response = asker.session(f"/api/v0/tasks/timeline?download=1&job_id={JOB}")
    disposition = response.headers["Content-Disposition"]
    assert disposition.startswith(f'attachment; filename="timeline-{JOB}-')
    assert len(json.loads(response.get_data())) == len(kuberay_live("v170", "timeline"))
    response = asker.session('/api/v0/tasks/timeline?download=1&job_id="%0d%0aX: y')
    assert response.status_code == 200
    assert "X" not in response.headers
    assert "Content-Disposition" not in asker.session("/api/v0/tasks/timeline").headers


def test_jobs_by_list_and_by_either_id(asker: Asker) -> None:
    """A bare list; an unknown job is an error in one shape (KubeRay's server: 200, plain text)."""
    (job,) = asker.json("/api/jobs/")
    assert asker.json("/api/jobs") == [job]
    assert asker.json("/api/jobs/sub-v170") == asker.json(f"/api/jobs/{JOB}") == job
    assert "nope" in refused(asker.session("/api/jobs/nope"), "not_found")


def test_actors_come_as_a_table_in_part_and_alone(asker: Asker) -> None:
    """The table, some of it, one; unknown is null as in Ray."""
    table = asker.json("/logical/actors")["data"]["actors"]
    actor_id = next(iter(table))
    assert asker.json(f"/logical/actors/{actor_id}")["data"]["detail"] == table[actor_id]
    some = asker.json(f"/logical/actors?ids={actor_id},x")["data"]["actors"]
    assert some == {actor_id: table[actor_id], "x": None}
    assert asker.json("/logical/actors/x")["data"]["detail"] is None


def test_nodes_come_as_summary_host_names_and_alone(asker: Asker) -> None:
    """Summary by default, host names, detail; an unknown view is refused."""
    summary = asker.json("/nodes?view=summary")
    assert asker.json("/nodes") == summary
    assert len(asker.json("/nodes?view=hostNameList")["data"]["hostNameList"]) == 2
    node_id = summary["data"]["summary"][0]["raylet"]["nodeId"]
    assert asker.json(f"/nodes/{node_id}")["data"]["detail"]["actors"]
    refused(asker.session("/nodes?view=x"), "bad_request")


def test_the_cluster_tells_status_versions_and_activity(asker: Asker) -> None:
    """Status in both forms, metadata, activities."""
    assert "Node status" in asker.json("/api/cluster_status?format=1")["data"]["clusterStatus"]
    assert set(asker.json("/api/cluster_status")["data"]) == set(live("cluster_status")["data"])
    assert asker.json("/api/v0/cluster_metadata")["data"]["rayVersion"] == "2.55.1"
    assert "driver" in asker.json("/api/component_activities")


def test_answer_that_was_not_changed_is_304(asker: Asker) -> None:
    """Polls of an unchanged session cost nothing."""
    first = asker.session("/api/v0/tasks?detail=1&limit=10000")
    again = asker.session(
        "/api/v0/tasks?detail=1&limit=10000", headers={"If-None-Match": first.headers["ETag"]}
    )
    assert again.status_code == 304
