"""Logs of the sessions that KubeRay's released collectors wrote, against the live dashboard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.queries.log_files import nodes_with_logs
from historyserver.sessions import OpenSession
from storage.layout import SessionRef
from storage.local import LocalBackend
from tests.harness.compiled_samples import (
    SESSIONS,
    Version,
    compile_kuberay_sample,
    kuberay_samples,
)
from tests.historyserver.asking import Asker
from tests.historyserver.hand_made import app_of

EMPTY_FOLDERS = {"nsight/", "old/", "profiles/", "rocprof_sys/"}
"""Folders without a file: object storage has no folders, so nothing tells of them."""
VERSIONS: list[Version] = ["v162", "v170"]


class Sample:
    """One of the sessions, compiled and served."""

    def __init__(self, version: Version, folder: Path) -> None:
        self.compiled: CompiledSession = compile_kuberay_sample(version, folder / "s.sqlite")
        self.backend = LocalBackend(kuberay_samples() / "tree")
        self.session = SESSIONS[version]
        ref = SessionRef("ml", version, self.session)
        opened = OpenSession(ref, self.compiled, self.backend, "f")
        self.ask = Asker(app_of(self.backend, opened))
        self.prefix = f"/s/ml/raycluster/{version}/{self.session}"
        self.live = kuberay_samples() / "live" / version


@pytest.fixture(params=VERSIONS)
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Sample:
    """Each version's."""
    return Sample(request.param, tmp_path)


def test_the_head_s_log_names_are_those_of_the_live_dashboard(sample: Sample) -> None:
    """In the same groups; all but folders that were empty."""
    body = json.loads((sample.live / "logs_head.json").read_text())
    live = body["data"]["result"]
    heads = sample.compiled.connection().execute("SELECT node_id FROM nodes WHERE is_head = 1")
    ((head,),) = heads.fetchall()
    found = sample.ask.get(f"{sample.prefix}/api/v0/logs?node_id={head}").get_json()
    ours = found["data"]["result"]
    assert {group: set(names) for group, names in ours.items()} == {
        group: set(names) - EMPTY_FOLDERS for group, names in live.items()
    }


def test_every_stored_log_comes_back_byte_for_byte(sample: Sample) -> None:
    """All files of all nodes, found by listing them through the API."""
    read = 0
    for node in nodes_with_logs(sample.compiled):
        path = f"{sample.prefix}/api/v0/logs?node_id={node}&glob=**/*"
        groups = sample.ask.get(path).get_json()["data"]["result"]
        for name in (one for names in groups.values() for one in names):
            if name.endswith("/"):
                continue
            query = {"node_id": node, "filename": name, "lines": "-1"}
            text = sample.ask.get(f"{sample.prefix}/api/v0/logs/file", query_string=query)
            (stored,) = (
                file
                for file in (kuberay_samples() / "tree").rglob(Path(name).name)
                if sample.session in file.parts
                and node in file.parts
                and file.as_posix().endswith(f"/{name}")
            )
            assert text.data == stored.read_bytes(), name
            read += 1
    assert read > 50


def test_each_task_s_log_has_what_it_printed(sample: Sample) -> None:
    """Ray 2.55 lost the file names of most of these tasks; KubeRay's server answers 404 there."""
    tasks = sample.ask.get(f"{sample.prefix}/api/v0/tasks?detail=1").get_json()
    rows = tasks["data"]["result"]["result"]
    assert len(rows) == 13
    for row in rows:
        for suffix in ("out", "err"):
            path = f"{sample.prefix}/api/v0/logs/file?task_id={row['task_id']}&suffix={suffix}"
            assert sample.ask.get(path).status_code == 200
