"""Faults measured in the peer's history server and collector, none of which may exist here.

Each has a test that shows the right behaviour; most stand beside the code they are about, and
the others are below. `COVERED` says which; a test fails when one of them is gone.

| Fault of the peer | What holds here |
|---|---|
| errors of failed tasks depend on the order of files | any order of events gives the same rows |
| summaries count the first 10,000 tasks | they count all |
| opening takes longer than Ray's proxy waits | 503 in time, the work goes on, ask again |
| events refused above some rate | a fast sender is never refused |
| a killed collector's session is not listed | found by its data, under its name and `latest` |
| a large log is lost at a slow end | it is stored while Ray runs, and the rest is told |
| a log line over 64 KiB is an error | lines of any length |
| filters that match nothing by mistake | every column filters, others are refused |
| empty status, unknown jobs as text, no pid, ALIVE in the grave | told below |
| no log for a task without `stdoutFile` | its worker's file |
| each list request lists the bucket | one listing per renewal |
| 404 on API paths | none ever |
| RUNNING events with log info are dropped | kept with their log info |

Bad input is in `BAD_INPUT` in the same way.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from historyserver.catalogue import Catalogue
from historyserver.folding.records import LogInfo
from historyserver.queries.options import ListOptions, filters_of
from historyserver.queries.task_summaries import summary_by_function
from storage.backend import Backend, CommonPrefix, ObjectInfo
from storage.local.backend import LocalBackend
from tests.harness.compiled_samples import SESSIONS, kuberay_samples
from tests.historyserver.asking import Asker, refused
from tests.historyserver.catalogue.written import put_events, ref_of
from tests.historyserver.hand_made import HEAD, HandMade, app_of, entry_of, stored_sessions
from tests.historyserver.queries.session_builder import Task, build, close_all, task_id
from tests.historyserver.queries.task_lists import list_tasks

TESTS = Path(__file__).parents[2]
_HERE = "historyserver/web/test_faults_of_the_peer.py::"

COVERED: dict[str, tuple[str, ...]] = {
    "errors depend on the order of files": (
        (
            "historyserver/folding/test_order_and_duplicates.py::"
            "test_the_error_of_a_failed_task_survives_either_file_order"
        ),
        (
            "historyserver/queries/test_kuberay_sessions_equal_live.py::"
            "test_errors_of_failed_tasks_do_not_depend_on_file_order"
        ),
    ),
    "summaries count 10,000 tasks": (_HERE + "test_a_summary_counts_more_than_ten_thousand",),
    "open outlasts the proxy": (
        "historyserver/sessions/test_opening.py::test_a_long_preparation_answers_503_and_goes_on",
    ),
    "events refused": (
        "collector/lifecycle/test_process_lifecycle.py::test_a_fast_sender_is_never_refused",
        "collector/lifecycle/test_process_lifecycle.py::test_many_senders_at_once",
    ),
    "killed collector": (
        "collector/lifecycle/test_process_lifecycle.py::test_a_killed_collector_loses_and_repeats_nothing",
        (
            "historyserver/reading/test_what_our_collector_ships.py::"
            "test_what_a_killed_collector_left_is_read"
        ),
        (
            "historyserver/catalogue/test_finding_sessions.py::"
            "test_a_session_that_was_never_marked_is_listed_and_found"
        ),
    ),
    "large log at a slow end": (
        "collector/shipping/test_shipper_sessions.py::test_events_and_logs_are_in_storage_within_seconds",
        "collector/shipping/test_shipper_faults.py::test_what_the_grace_does_not_suffice_for_is_told",
        "collector/shipping/test_shipper_sessions.py::test_memory_does_not_grow_with_a_log",
    ),
    "long log lines": (
        "historyserver/api/test_log_reading.py::test_one_line_of_ten_megabytes_comes_whole",
    ),
    "filters": (
        _HERE + "test_the_filters_that_gave_no_rows",
        "historyserver/queries/test_task_filters.py::test_every_column_filters",
        "historyserver/queries/test_task_filters.py::test_what_cannot_be_filtered_is_refused",
    ),
    "what is told of the dead": (
        _HERE + "test_a_finished_job_has_status_and_runtime_env",
        _HERE + "test_an_unknown_job_is_an_error",
        _HERE + "test_actors_have_their_process_and_address",
        (
            "historyserver/queries/test_kuberay_sessions_equal_live.py::"
            "test_nodes_and_actors_of_a_dead_session_are_dead"
        ),
    ),
    "no stdoutFile": (_HERE + "test_a_task_without_a_stdout_file_has_its_worker_s",),
    "list requests list the bucket": (_HERE + "test_the_list_is_not_listed_for_each_request",),
    "404 on API paths": (
        _HERE + "test_what_was_404_is_answered",
        "historyserver/api/test_proxy_rules.py::test_no_api_path_answers_404_or_redirects",
        "historyserver/api/test_hostile_requests.py::test_no_name_makes_an_api_path_404",
    ),
    "RUNNING events with log info": (
        _HERE + "test_running_events_with_log_info_are_kept",
        "collector/intake/test_intake_http.py::test_no_content_is_ever_refused",
    ),
}

BAD_INPUT: dict[str, tuple[str, ...]] = {
    "truncated event files": (
        (
            "historyserver/reading/test_blocks_of_lines.py::"
            "test_gzip_truncated_at_any_byte_keeps_what_was_readable"
        ),
        (
            "historyserver/reading/test_blocks_of_lines.py::"
            "test_truncation_at_any_byte_keeps_the_whole_lines"
        ),
    ),
    "corrupt event files": (
        (
            "historyserver/reading/test_blocks_of_lines.py::"
            "test_corrupt_gzip_keeps_what_comes_before_the_fault"
        ),
    ),
    "unknown event types": (
        (
            "historyserver/folding/test_entities.py::"
            "test_an_unknown_event_type_is_counted_by_name_and_reason"
        ),
    ),
    "missing fields and wrong types": (
        "historyserver/folding/test_bad_events.py::test_the_others_are_folded",
        "historyserver/folding/test_bad_events.py::test_null_fields_read_as_absent",
        "historyserver/queries/test_odd_snapshots.py::test_any_value_in_any_field_is_answered",
        (
            "historyserver/reading/test_impossible_documents.py::"
            "test_an_impossible_log_costs_only_itself"
        ),
    ),
    "huge fields": (
        "historyserver/folding/test_bad_events.py::test_a_huge_field_is_kept_whole",
        "historyserver/reading/test_blocks_of_lines.py::test_an_endless_line_is_never_held_whole",
    ),
    "a log of 1 GiB": (
        "historyserver/api/test_logs.py::test_the_tail_of_a_gigabyte_is_quick_and_small",
    ),
    "a line of 10 MB": (
        "historyserver/api/test_log_reading.py::test_one_line_of_ten_megabytes_comes_whole",
    ),
    "binary logs": (
        "historyserver/api/test_logs_of_kuberay.py::test_every_stored_log_comes_back_byte_for_byte",
        _HERE + "test_a_binary_log_comes_byte_for_byte",
    ),
    "names that leave": (
        "historyserver/api/test_logs.py::test_names_that_leave_the_folder_are_refused",
        "historyserver/api/test_logs.py::test_names_encoded_in_the_address_are_refused_too",
    ),
    "unknown session, node, job, actor": (_HERE + "test_what_does_not_exist_is_told_in_one_shape",),
    "never a stack trace": (
        "historyserver/web/test_failures.py::test_a_fault_of_ours_shows_no_trace",
        "historyserver/web/test_slow_clients.py::test_what_is_too_large_is_refused_in_our_shape",
    ),
}


@pytest.mark.parametrize("named", sorted({n for table in (COVERED, BAD_INPUT) for n in table}))
def test_every_fault_has_its_tests(named: str) -> None:
    """The tables name tests that exist."""
    for test in (COVERED | BAD_INPUT)[named]:
        file, _, function = test.partition("::")
        tree = ast.parse((TESTS / file).read_text())
        found = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert function in found, test


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """The session that the peer's own collector stored, and its list."""
    folder = tmp_path_factory.mktemp("peer")
    shutil.copytree(kuberay_samples() / "tree", folder / "bucket")
    backend = LocalBackend(folder / "bucket")
    sessions = stored_sessions(backend, folder / "cache")
    yield Asker(app_of(backend, entries=[entry_of()], sessions=sessions))
    sessions.close()


def result_of(ask: Asker, path: str) -> list[dict[str, Any]]:
    """The rows of a State API list."""
    rows: list[dict[str, Any]] = ask.json(path)["data"]["result"]["result"]
    return rows


def test_a_summary_counts_more_than_ten_thousand(tmp_path: Path) -> None:
    """And says nothing of a cut, as there is none."""
    made = build(tmp_path / "s.sqlite", tasks=[Task(task_id(n)) for n in range(10_050)])
    result = summary_by_function(made, ())["data"]["result"]
    close_all()
    assert result["total"] == result["num_filtered"] == 10_050
    summary = result["result"]["node_id_to_summary"]["cluster"]["summary"]
    assert summary["square"]["state_counts"] == {"FINISHED": 10_050}


@pytest.mark.parametrize("column", ["name", "func_or_class_name", "node_id"])
def test_the_filters_that_gave_no_rows(tmp_path: Path, column: str) -> None:
    """A value that one task has finds this one."""
    tasks = [Task(task_id(1), name="a", node="aa" * 28), Task(task_id(2), name="b", node="bb" * 28)]
    made = build(tmp_path / "s.sqlite", tasks=tasks)
    rows = list_tasks(made, ListOptions())["data"]["result"]["result"]
    assert len(rows) == 2
    for row in rows:
        asked = {
            "filter_keys": [column], "filter_predicates": ["="], "filter_values": [row[column]],
        }  # fmt: skip
        found = list_tasks(made, ListOptions(filters=filters_of(asked)))["data"]["result"]
        assert [one["task_id"] for one in found["result"]] == [row["task_id"]]
    close_all()


def test_a_finished_job_has_status_and_runtime_env(ask: Asker) -> None:
    """As the live dashboard told."""
    jobs = ask.json("/api/jobs/")
    assert jobs
    for job in jobs:
        assert job["status"] in ("SUCCEEDED", "FAILED", "STOPPED")
        assert isinstance(job["runtime_env"], dict)
        assert job["message"]


def test_an_unknown_job_is_an_error(ask: Asker) -> None:
    """Not 200 with plain text."""
    refused(ask.session("/api/jobs/nobody"), "not_found")


def test_actors_have_their_process_and_address(ask: Asker) -> None:
    """Their ALIVE event tells both."""
    actors = ask.json("/logical/actors")["data"]["actors"].values()
    lived = [actor for actor in actors if actor["startTime"]]
    assert lived
    for actor in lived:
        assert actor["state"] == "DEAD"
        assert actor["pid"] > 0
        assert actor["address"]["ipAddress"]
        assert actor["address"]["port"] > 0


def test_a_task_without_a_stdout_file_has_its_worker_s(
    backend: Backend, hand_made: HandMade
) -> None:
    """Ray 2.55 leaves the name empty for some."""
    task = task_id(1)
    hand_made.log(f"worker-{'c' * 56}-02000000-7.out", b"printed\n")
    hand_made.task(task, log_info=LogInfo(stdout_file="", stderr_file=""))
    response = Asker(app_of(backend, hand_made.opened())).session(
        f"/api/v0/logs/file?task_id={task}"
    )
    assert (response.status_code, response.data) == (200, b"printed\n")
    assert response.headers["X-Ray-History-Log-Range"] == "whole-worker-file"


class CountedBackend(LocalBackend):
    """A store that counts listings."""

    listings = 0

    def list(
        self, prefix: str, *, delimiter: str | None = None, start_after: str | None = None
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        """As the local one."""
        self.listings += 1
        return super().list(prefix, delimiter=delimiter, start_after=start_after)


def test_the_list_is_not_listed_for_each_request(tmp_path: Path) -> None:
    """A hundred requests, one look at the bucket."""
    (tmp_path / "store").mkdir()
    store = CountedBackend(tmp_path / "store")
    put_events(store, ref_of(1))
    catalogue = Catalogue(store)
    assert len(catalogue.sessions()) == 1
    before = store.listings
    assert before > 0
    for _ in range(100):
        catalogue.sessions()
        assert catalogue.find("ml", "raycluster", "rl", ref_of(1).session) is not None
    assert store.listings == before


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ("/api/v0/actors", ("data", "result", "total"), 2),
        ("/api/v0/nodes", ("data", "result", "total"), 2),
        ("/api/version", ("session_name",), SESSIONS["v170"]),
        ("/usage_stats_enabled", ("result",), True),
    ],
)
def test_what_was_404_is_answered(
    ask: Asker, path: str, field: tuple[str, ...], value: object
) -> None:
    """With the session's data."""
    found = ask.json(path)
    for name in field:
        found = found[name]
    assert found == value


def test_a_task_by_its_id_is_answered(ask: Asker) -> None:
    """All of its attempts."""
    (task, *_) = result_of(ask, "/api/v0/tasks")
    found = result_of(ask, f"/api/v0/tasks/{task['task_id']}")
    assert {row["task_id"] for row in found} == {task["task_id"]}


def test_running_events_with_log_info_are_kept(ask: Asker) -> None:
    """Only these events tell the node, the worker and the log of a task."""
    tasks = result_of(ask, "/api/v0/tasks?detail=1&limit=10000")
    told = [task for task in tasks if task["task_log_info"]]
    assert told
    for task in told:
        assert "RUNNING" in [event["state"] for event in task["events"]]
        assert task["node_id"]
        assert task["worker_id"]


def test_a_binary_log_comes_byte_for_byte(backend: Backend, hand_made: HandMade) -> None:
    """Nothing decodes it."""
    body = bytes(range(256)) * 300
    hand_made.log("core.bin", body)
    response = Asker(app_of(backend, hand_made.opened())).session(
        f"/api/v0/logs/file?node_id={HEAD}&filename=core.bin&lines=-1"
    )
    assert (response.status_code, response.data) == (200, body)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"/s/ml/raycluster/nobody/{SESSIONS['v170']}/api/jobs/", "session_not_found"),
        (f"/s/ml/raycluster/v170/{SESSIONS['v162']}/api/jobs/", "session_not_found"),
        ("/s/ml/raycluster/v170/session_x%00y/api/jobs/", "bad_selection"),
        ("{}/api/v0/logs?node_id=00", "not_found"),
        ("{}/api/jobs/00", "not_found"),
        ("{}/api/v0/tasks/00", "not_found"),
        ("{}/api/v0/logs/file?actor_id=00", "not_found"),
        ("{}/api/v0/logs/file?task_id=00", "not_found"),
        (f"{{}}/api/v0/logs/file?node_id={'0' * 56}&filename=x", "not_found"),
    ],
)
def test_what_does_not_exist_is_told_in_one_shape(ask: Asker, path: str, code: str) -> None:
    """400 with the reason, as 404 would show another cluster."""
    here = f"/s/ml/raycluster/v170/{SESSIONS['v170']}"
    refused(ask.get(path.format(here)), code)
