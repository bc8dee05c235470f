"""`/events` and `ray list cluster-events`."""

from __future__ import annotations

import pytest

from storage.backend import Backend
from tests.historyserver.asking import Asker, refused
from tests.historyserver.hand_made import HandMade, app_of

LINE = {
    "event_id": "a1",
    "source_type": "RAYLET",
    "host_name": "ray-head-0",
    "pid": "27",
    "severity": "ERROR",
    "label": "RAY_WORKER_FAILURE",
    "message": "first\\nsecond",
    "timestamp": 1796068985,
    "custom_fields": {"job_id": "02000000", "node_id": "ab", "deep_list": [{"a_b": 1}]},
}
GLOBAL = {"event_id": "b2", "source_type": "JOBS", "severity": "INFO", "message": "Started",
          "timestamp": "1796068980", "custom_fields": {"submission_id": "s"}}  # fmt: skip


@pytest.fixture
def ask(backend: Backend, hand_made: HandMade) -> Asker:
    """A session with an event of a job and one of none."""
    made = hand_made.event(GLOBAL).event(LINE, job_id="02000000")
    return Asker(app_of(backend, made.opened()))


def test_events_come_by_job_with_camel_case_keys(ask: Asker) -> None:
    """As the live dashboard answers, newlines restored."""
    found = ask.json("/events")
    assert found["msg"] == "All events fetched."
    events = found["data"]["events"]
    assert set(events) == {"global", "02000000"}
    (event,) = events["02000000"]
    assert event["eventId"] == "a1"
    assert event["message"] == "first\nsecond"
    assert event["customFields"] == {"jobId": "02000000", "nodeId": "ab", "deepList": [{"aB": 1}]}


@pytest.mark.parametrize(("job_id", "ids"), [("02000000", ["a1"]), ("global", ["b2"]), ("09", [])])
def test_one_job_s_events(ask: Asker, job_id: str, ids: list[str]) -> None:
    """An unknown job has none, as live."""
    found = ask.json(f"/events?job_id={job_id}")
    assert found["msg"] == "Job events fetched."
    assert found["data"]["jobId"] == job_id
    assert [event["eventId"] for event in found["data"]["events"]] == ids


def test_state_api_rows_are_sorted_filtered_and_counted(ask: Asker) -> None:
    """Ray 2.55 fails here when timestamps are of two types."""
    result = ask.json("/api/v0/cluster_events")["data"]["result"]
    assert [row["event_id"] for row in result["result"]] == ["b2", "a1"]
    assert result["result"][1]["time"] == "2026-11-30 20:03:05"
    query = "filter_keys=severity&filter_predicates=%3D&filter_values=error"
    result = ask.json(f"/api/v0/cluster_events?{query}&limit=1")["data"]["result"]
    assert (result["total"], result["num_filtered"]) == (2, 1)
    assert [row["event_id"] for row in result["result"]] == ["a1"]


@pytest.mark.parametrize(
    "query",
    ["limit=-1", "limit=x", "limit=10001", "filter_keys=nope&filter_predicates=%3D&filter_values=1",
     "filter_keys=severity&filter_predicates=%3C&filter_values=1"],
)  # fmt: skip
def test_queries_that_cannot_be_met_are_refused(ask: Asker, query: str) -> None:
    """With a text that says why."""
    refused(ask.session(f"/api/v0/cluster_events?{query}"), "bad_request")
