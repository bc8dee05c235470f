"""One task attempt in Ray's shape, also when what Ray sent was odd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from historyserver.folding.records import LogInfo, Profile, ProfileEvent, TaskDetail
from historyserver.queries.options import ListOptions
from tests.historyserver.queries.session_builder import START_MS, Task, build, task_id
from tests.historyserver.queries.task_lists import list_tasks

NS = 1_000_000


def row(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """The only row of a session with this attempt, in detail."""
    session = build(tmp_path / "compiled", tasks=[Task(task_id(1), **changes)])
    (found,) = list_tasks(session, ListOptions(detail=True))["data"]["result"]["result"]
    session.close()
    checked: dict[str, Any] = found
    return checked


def test_absent_values_are_null_or_empty_as_in_ray(tmp_path: Path) -> None:
    """Objects are {}, scalars null; an attempt without transitions is NIL."""
    found = row(
        tmp_path, state="", node=None, worker=None, pid=None, parent=None, actor=None,
        creation_ms=None, start_ms=None, end_ms=None, required_resources=None, runtime_env=None,
        language=None,
    )  # fmt: skip
    assert found["state"] == "NIL"
    for name in ("node_id", "worker_id", "worker_pid", "parent_task_id", "actor_id", "call_site",
                 "creation_time_ms", "start_time_ms", "end_time_ms", "task_log_info",
                 "error_message", "error_type", "is_debugger_paused", "placement_group_id"):  # fmt: skip
        assert found[name] is None, name
    assert found["required_resources"] == found["label_selector"] == found["profiling_data"] == {}
    assert found["events"] == []
    assert found["fallback_strategy"] == {"options": []}


def test_events_are_one_per_state_in_rays_order(tmp_path: Path) -> None:
    """Ray keeps the latest time of a state and lists by its enumeration; whole milliseconds."""
    transitions = [
        ("RUNNING", START_MS * NS + 1_999_999),
        ("SUBMITTED_TO_WORKER", START_MS * NS + 2_000_000),
        ("RUNNING", START_MS * NS + 5_000_000),
        ("FINISHED", START_MS * NS + 6_000_000),
    ]
    found = row(tmp_path, detail=TaskDetail(transitions=transitions))
    assert found["events"] == [
        {"state": "SUBMITTED_TO_WORKER", "created_ms": START_MS + 2.0},
        {"state": "RUNNING", "created_ms": START_MS + 5.0},
        {"state": "FINISHED", "created_ms": START_MS + 6.0},
    ]


def test_error_message_has_no_terminal_colours(tmp_path: Path) -> None:
    """As Ray's API strips them; Unicode stays."""
    detail = TaskDetail(error_message="\x1b[36mray::f()\x1b[39m größe 🙂\n\x1b[1;31mEnd\x1b[0m")
    found = row(tmp_path, state="FAILED", error_type="X", detail=detail)
    assert found["error_message"] == "ray::f() größe 🙂\nEnd"


def test_unknown_log_offsets_are_left_out(tmp_path: Path) -> None:
    """Ray leaves out the end of a task that runs, and 2.55 loses the start of a short one."""
    found = row(tmp_path, detail=TaskDetail(log_info=LogInfo("o", "e", -1, 98, 0, -1)))
    assert found["task_log_info"] == {
        "stdout_file": "o", "stderr_file": "e", "stdout_end": 98, "stderr_start": 0,
    }  # fmt: skip


def test_resources_are_floats(tmp_path: Path) -> None:
    """Events carry 1, Ray's API prints 1.0."""
    found = row(tmp_path, required_resources='{"CPU":1,"memory":2000000000}')
    assert json.dumps(found["required_resources"]) == '{"CPU": 1.0, "memory": 2000000000.0}'


@pytest.mark.parametrize(
    "serialized, uris, config",
    [
        ("{}", None, {"setup_timeout_seconds": 600, "eager_install": True, "log_files": []}),
        (
            '{"working_dir": "gcs://p.zip", "config": {"setup_timeout_seconds": 5}}',
            {"working_dir_uri": "gcs://p.zip", "py_modules_uris": []},
            {"setup_timeout_seconds": 5, "eager_install": True, "log_files": []},
        ),
        (
            '{"py_modules": ["gcs://a.zip"]}',
            {"working_dir_uri": "", "py_modules_uris": ["gcs://a.zip"]},
            {"setup_timeout_seconds": 600, "eager_install": True, "log_files": []},
        ),
        (
            "not json",
            None,
            {"setup_timeout_seconds": 600, "eager_install": True, "log_files": []},
        ),
    ],
)
def test_runtime_env_info_is_derived_as_ray_derives_it(
    tmp_path: Path, serialized: str, uris: dict[str, Any] | None, config: dict[str, Any]
) -> None:
    """The serialized text stays as it is."""
    info = row(tmp_path, runtime_env=serialized)["runtime_env_info"]
    assert info["serialized_runtime_env"] == serialized
    assert info.get("uris") == uris
    assert info["runtime_env_config"] == config


@pytest.mark.parametrize("extra", ["", "{}", "{", '{"a": 1} x', '"text"', "NaN", "\x00"])
def test_odd_extra_data_never_breaks_the_answer(tmp_path: Path, extra: str) -> None:
    """What is not JSON comes as a string."""
    event = ProfileEvent("task:execute", START_MS * NS + 500_000, START_MS * NS + 1_500_000, extra)
    profile = Profile("worker", "cc" * 28, "10.0.0.1", (event,))
    data = row(tmp_path, detail=TaskDetail(profiles=[profile]))["profiling_data"]
    (span,) = data["events"]
    assert (span["start_time"], span["end_time"]) == (START_MS + 0.5, START_MS + 1.5)
    assert span["extra_data"] in ({}, "text", extra)
    assert data["node_ip_address"] == "10.0.0.1"


def test_spans_of_two_reports_are_one_list(tmp_path: Path) -> None:
    """Ray merges them under the process that reported last."""
    reports = [
        Profile("driver", "d", "10.0.0.1", (ProfileEvent("a", 1, 2),)),
        Profile("worker", "w", "10.0.0.2", (ProfileEvent("b", 3, 4),)),
    ]
    data = row(tmp_path, detail=TaskDetail(profiles=reports))["profiling_data"]
    assert data["component_id"] == "w"
    assert [span["event_name"] for span in data["events"]] == ["a", "b"]


def test_huge_fields_pass_through(tmp_path: Path) -> None:
    """A long name and a long error are data like any other."""
    found = row(
        tmp_path,
        name="n" * 100_000,
        state="FAILED",
        detail=TaskDetail(error_message="e" * 3_000_000),
    )
    assert len(found["name"]) == 100_000
    assert len(found["error_message"]) == 3_000_000
