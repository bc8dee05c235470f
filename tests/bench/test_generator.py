"""Generated sessions look like real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from historyserver.compiled.opener import open_compiled
from historyserver.compiling.compile import compile_session
from historyserver.reading.damage import DamageLog
from historyserver.reading.events import open_events
from historyserver.reading.locate import locate
from storage.local.backend import LocalBackend
from tests.bench.generator import all_events, task_events, write_session
from tests.harness.compiled_samples import LATER_MS, compiled_tasks, kuberay_source

OPTIONAL = {"rayErrorInfo", "taskLogInfo", "deathCause"}
FREE = {"resources", "requiredResources", "labels", "metadata"}


def shape(value: Any) -> Any:
    """Keys and types of a JSON value, without what only some events carry."""
    if isinstance(value, dict):
        return {
            key: "map" if key in FREE else shape(item)
            for key, item in value.items()
            if key not in OPTIONAL
        }
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def test_every_event_type_has_the_keys_of_real_events() -> None:
    """Each generated event equals in keys and types some real event of its type."""
    backend, source = kuberay_source("v170")
    real: dict[str, list[Any]] = {}
    for file in source.event_files:
        for block in open_events(backend, file, DamageLog()):
            for event in map(json.loads, block.splitlines()):
                real.setdefault(event["eventType"], []).append(shape(event))
    generated = [json.loads(line) for _, line in all_events(200)]
    assert {event["eventType"] for event in generated} == real.keys()
    for event in generated:
        assert shape(event) in real[event["eventType"]], event["eventType"]


def test_a_task_has_five_events_of_about_four_kilobytes() -> None:
    """The size that the compared systems were measured with: 4.05 KB."""
    lines = [line for number in range(100) for _, line in task_events(number)]
    assert len(lines) == 500
    assert 3_850 < sum(map(len, lines)) / 100 < 4_250
    assert sum(b'"FAILED"' in line for line in lines) == 1


@pytest.mark.parametrize("layout", ["kuberay", "ours"])
def test_both_layouts_compile_to_the_same_tasks(layout: str, tmp_path: Path) -> None:
    """Nothing is skipped, and every task is there with its outcome and log offsets."""
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    ref = write_session(bucket, 200, layout=layout)
    backend = LocalBackend(bucket)
    source = locate(backend, ref, now_ms=LATER_MS * 2)
    assert {file.framing for file in source.event_files} == {
        "plain" if layout == "kuberay" else "gzip"
    }
    meta = compile_session(backend, source, tmp_path / "out.sqlite", workers=1)
    assert meta.skipped == {}
    tasks = [r for r in compiled_tasks(open_compiled(tmp_path / "out.sqlite")) if r["start_ms"]]
    assert len(tasks) == 200
    assert sum(row["state"] == "FAILED" for row in tasks) == 2
    assert all(row["detail"].log_info.stdout_start > 0 for row in tasks)
