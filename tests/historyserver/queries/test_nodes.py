"""Nodes: state and resources from events, hardware from snapshots, and what the pages need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.closing import Closing
from historyserver.folding.records import ActorRecord, NodeRecord, WorkerRecord
from historyserver.queries import cluster, nodes, workers
from historyserver.queries.options import ListOptions
from storage import endpoints
from tests.historyserver.queries.ray_answers import live
from tests.historyserver.queries.session_builder import (
    END_MS,
    NODE_A,
    NODE_B,
    START_MS,
    WORKER,
    build,
)

NS = 1_000_000
DETAIL = ListOptions(detail=True)


def head(**changes: Any) -> NodeRecord:
    """A head that lived as long as the session."""
    known: dict[str, Any] = {
        "node_id": NODE_A,
        "ip_address": "10.0.0.1",
        "hostname": "head-0",
        "node_name": "10.0.0.1",
        "labels": {"ray.io/node-group": "headgroup", "my_label": "x"},
        "state": "ALIVE",
        "resources_total": {"CPU": 4, "memory": 2**34, "node:10.0.0.1": 1,
                            "object_store_memory": 2**30},
        "start_ns": START_MS * NS,
        "is_head": True,
    }  # fmt: skip
    record = NodeRecord(**(known | changes))
    Closing(END_MS).close_node(record)
    return record


def lost(**changes: Any) -> NodeRecord:
    """A worker node that was lost while the session went on."""
    known: dict[str, Any] = {
        "node_id": NODE_B,
        "ip_address": "10.0.0.2",
        "hostname": "worker-0",
        "state": "DEAD",
        "start_ns": START_MS * NS,
        "end_ns": (START_MS + 9000) * NS,
        "death_reason": "UNEXPECTED_TERMINATION",
        "death_message": "health check failed",
    }
    return NodeRecord(**(known | changes))


def raylets(session: CompiledSession) -> dict[str, dict[str, Any]]:
    """The summary's raylets by node id."""
    summary = nodes.node_summary(session)["data"]["summary"]
    return {node["raylet"]["nodeId"]: node["raylet"] for node in summary}


def test_state_api_shows_dead_nodes_with_their_reasons(tmp_path: Path) -> None:
    """One closed by the session's end, one that Ray saw die."""
    session = build(tmp_path / "s", nodes=[head(), lost()])
    rows = nodes.list_nodes(session, DETAIL)["data"]["result"]["result"]
    assert [row["state"] for row in rows] == ["DEAD", "DEAD"]
    assert "session ended" in rows[0]["state_message"]
    assert rows[1]["state_message"] == "Unexpected termination: health check failed"
    assert [row["end_time_ms"] for row in rows] == [END_MS, START_MS + 9000]
    assert set(rows[0]) == set(live("state_nodes")["data"]["result"]["result"][0])


def test_dashboard_keeps_nodes_that_lived_to_the_end(tmp_path: Path) -> None:
    """The Logs page lists ALIVE nodes only; a node that died earlier stays DEAD."""
    session = build(tmp_path / "s", nodes=[head(), lost()])
    found = raylets(session)
    assert (found[NODE_A]["state"], found[NODE_B]["state"]) == ("ALIVE", "DEAD")
    assert "session ended" in found[NODE_A]["stateMessage"]
    assert found[NODE_B]["endTimeMs"] == str(START_MS + 9000)
    assert nodes.host_names(session)["data"] == {"hostNameList": ["head-0"]}


def test_without_snapshot_the_pages_have_what_they_read_unasked(tmp_path: Path) -> None:
    """Zeros where a page would break; memory and disk are absent, not zero."""
    session = build(tmp_path / "s", nodes=[head()])
    (node,) = nodes.node_summary(session)["data"]["summary"]
    assert node["networkSpeed"] == [0.0, 0.0]
    assert node["loadAvg"][0] == [0.0, 0.0, 0.0]
    assert node["cmdline"] == node["gpus"] == []
    assert not {"mem", "disk", "cpus"} & set(node)
    raylet = node["raylet"]
    assert raylet["objectStoreUsedMemory"] + raylet["objectStoreAvailableMemory"] == 2**30
    assert raylet["resourcesTotal"]["objectStoreMemory"] == 2**30
    assert raylet["labels"]["myLabel"] == "x"
    texts = nodes.node_summary(session)["data"]["nodeLogicalResources"]
    assert texts == {NODE_A: "?/4.0 CPU\n?/16.00GiB memory\n?/1.00GiB object_store_memory"}


def test_snapshot_gives_the_hardware_and_events_the_state(tmp_path: Path) -> None:
    """Of the summary and of the detail."""
    kept = {
        "hostname": "head-0", "ip": "10.0.0.1", "cpu": 17.4, "mem": [4, 3, 25.0, 1],
        "raylet": {"nodeId": NODE_A, "state": "ALIVE", "numWorkers": 3, "stateMessage": None},
    }  # fmt: skip
    texts = {"data": {"summary": [], "nodeLogicalResources": {NODE_A: "0.5/4.0 CPU"}}}
    detail = {"data": {"detail": {**kept, "workers": [{"pid": 1}], "actors": {}}}}
    session = build(
        tmp_path / "s",
        nodes=[head()],
        snapshots={
            (endpoints.NODE_SUMMARY, NODE_A): kept,
            (endpoints.NODE_SUMMARY, ""): texts,
            (endpoints.node_detail(NODE_A), ""): detail,
        },
    )
    answer = nodes.node_summary(session)["data"]
    assert answer["nodeLogicalResources"] == {NODE_A: "0.5/4.0 CPU"}
    assert (answer["summary"][0]["cpu"], answer["summary"][0]["mem"]) == (17.4, [4, 3, 25.0, 1])
    assert answer["summary"][0]["raylet"]["numWorkers"] == 3
    assert "session ended" in answer["summary"][0]["raylet"]["stateMessage"]
    found = nodes.node_detail(session, NODE_A)["data"]["detail"]
    assert found["workers"] == [{"pid": 1}]


def test_detail_has_the_nodes_actors(tmp_path: Path) -> None:
    """From events, also when the snapshot is older."""
    actor = ActorRecord(actor_id="ab" * 16, class_name="Counter", state="DEAD", node_id=NODE_A)
    session = build(tmp_path / "s", nodes=[head(), lost()], actors=[actor])
    found = nodes.node_detail(session, NODE_A.upper())["data"]["detail"]
    assert found["actors"]["ab" * 16]["className"] == "Counter"
    assert nodes.node_detail(session, NODE_B)["data"]["detail"]["actors"] == {}


def test_unknown_node_has_an_almost_empty_detail(tmp_path: Path) -> None:
    """As in Ray."""
    assert nodes.node_detail(build(tmp_path / "s"), "ab" * 28) == live("node_detail_unknown")


def test_cluster_status_is_rebuilt_from_nodes(tmp_path: Path) -> None:
    """In the sections that the page cuts it into; what is not known is said."""
    session = build(tmp_path / "s", nodes=[head(), lost()])
    answer = cluster.cluster_status_text(session)
    text = answer["data"]["clusterStatus"]
    kept = live("cluster_status_format1")["data"]["clusterStatus"]
    for line in ("Node status", "Active:", "Pending:", "Recent failures:", "Resources",
                 "Total Usage:", "From request_resources:", "Pending Demands:"):  # fmt: skip
        assert line in text.splitlines()
        assert line in kept.splitlines()
    assert " 1 headgroup" in text
    assert f" node_{NODE_B}: RayletUnexpectedlyDied (ip: 10.0.0.2)" in text
    assert " ?/4.0 CPU" in text
    assert "not known" in answer["msg"]
    assert cluster.cluster_status(session)["data"]["clusterStatus"] is None


def test_cluster_answers_without_any_data(tmp_path: Path) -> None:
    """Never an error."""
    session = build(tmp_path / "s")
    assert "(no active nodes)" in cluster.cluster_status_text(session)["data"]["clusterStatus"]
    assert cluster.cluster_metadata(session)["data"]["rayVersion"] == "2.55.1"
    assert cluster.component_activities(session)["driver"]["is_active"] == "INACTIVE"


@pytest.mark.parametrize("known", [True, False])
def test_workers_come_from_events_and_snapshots(tmp_path: Path, known: bool) -> None:
    """A worker's own end stands; one that outlived the session is closed."""
    row = live("state_workers")["data"]["result"]["result"][2]
    kept = {(endpoints.WORKERS, WORKER): {**row, "worker_id": WORKER}} if known else {}
    died = WorkerRecord(worker_id="dd" * 28, pid=9, exit_type="USER_ERROR", exit_detail="boom",
                        end_ms=START_MS + 1)  # fmt: skip
    alive = WorkerRecord(worker_id=WORKER, node_id=NODE_A, pid=8, ip_address="10.0.0.1")
    session = build(tmp_path / "s", workers=[alive, died], snapshots=kept)
    rows = workers.list_workers(session, DETAIL)["data"]["result"]["result"]
    assert [worker["worker_id"] for worker in rows] == [WORKER, "dd" * 28]
    assert not any(worker["is_alive"] for worker in rows)
    assert "session ended" in rows[0]["exit_detail"]
    assert rows[0]["pid"] == (row["pid"] if known else 8)
    assert (rows[1]["exit_type"], rows[1]["exit_detail"]) == ("USER_ERROR", "boom")
    assert set(rows[0]) == set(row)
