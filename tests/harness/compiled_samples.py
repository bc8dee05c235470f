"""Compiles the real sample sessions, for tests of whatever reads compiled files."""

from __future__ import annotations

import functools
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Literal

import msgspec

from historyserver.compiled.details import Details
from historyserver.compiled.opener import CompiledSession, open_compiled
from historyserver.compiling.compile import compile_session
from historyserver.folding.records import (
    ActorRecord,
    JobRecord,
    NodeRecord,
    WorkerRecord,
)
from historyserver.reading.locate import locate
from historyserver.reading.source import EventFile, SessionSource
from storage.layout import SessionRef
from storage.local.backend import LocalBackend

SAMPLES = Path(__file__).parent.parent / "samples"

Version = Literal["v162", "v170"]

SESSIONS: dict[str, str] = {
    "v162": "session_2026-11-30_21-46-10_967041_1",
    "v170": "session_2026-11-30_21-46-10_843035_1",
}
"""The session that KubeRay's collector of each version wrote."""

LATER_MS = 1_800_000_000_000
"""A time long after the sample sessions, so that they count as over."""


@functools.cache
def kuberay_samples() -> Path:
    """Unpack the two KubeRay sessions once per process: `tree/` is the bucket."""
    folder = tempfile.TemporaryDirectory(prefix="kuberay-samples-")
    with tarfile.open(SAMPLES / "kuberay-sessions.tar.gz") as archive:
        archive.extractall(folder.name, filter="data")
    _kept.append(folder)
    (found,) = Path(folder.name).rglob("tree")
    return found.parent


_kept: list[tempfile.TemporaryDirectory[str]] = []


def kuberay_source(version: Version) -> tuple[LocalBackend, SessionSource]:
    """Locate a sample session in the bucket as KubeRay's collector left it."""
    backend = LocalBackend(kuberay_samples() / "tree")
    ref = SessionRef("ml", version, SESSIONS[version])
    return backend, locate(backend, ref, now_ms=LATER_MS)


def compile_kuberay_sample(version: Version, path: Path) -> CompiledSession:
    """Compile a sample session into `path` and open it."""
    backend, source = kuberay_source(version)
    compile_session(backend, source, path, workers=1)
    return open_compiled(path)


def kuberay_live(version: Version, name: str) -> Any:
    """Give what the live dashboard answered of a sample session, as `tasks` or `lineage`."""
    return json.loads((kuberay_samples() / "live" / version / f"{name}.json").read_text())


def ray_sample_events() -> list[dict[str, Any]]:
    """Give one or more real events of each type, of Ray 2.55 and (workers) 2.60."""
    files = sorted((SAMPLES / "ray-events").glob("*_EVENT*.json"))
    return [event for file in files for event in json.loads(file.read_text())]


def compile_events(
    events: list[dict[str, Any]], path: Path, *, state: str = "ended"
) -> CompiledSession:
    """Compile any events as a session of their own; its end is the last time they tell of.

    Args:
        events: as Ray posts them.
        path: where the compiled file goes; the events are written beside it.
        state: of the session; `running` closes nothing.
    """
    bucket = path.parent / f"{path.name}-bucket"
    bucket.mkdir()
    body = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    (bucket / "events.jsonl").write_bytes(body)
    session = next(
        (event["sessionName"] for event in events if "sessionName" in event), "session_x"
    )
    source = SessionSource(
        session=SessionRef("ns", "cluster", session),
        generation="C",
        event_files=(EventFile("events.jsonl", "00" * 28, len(body), "1", "plain"),),
        log_files=(),
        snapshots=(),
        state=state,
        fingerprint="events",
    )
    compile_session(LocalBackend(bucket), source, path, workers=1)
    return open_compiled(path)


def compile_ray_samples(path: Path) -> CompiledSession:
    """Compile the sample events of every type; they are of three sessions, partial on purpose."""
    return compile_events(ray_sample_events(), path)


def compiled_tasks(session: CompiledSession) -> list[dict[str, Any]]:
    """Give every task attempt with its strings looked up and its detail decoded."""
    cursor = session.connection().execute("SELECT * FROM tasks ORDER BY row")
    names = [column[0] for column in cursor.description]
    texts = dict(session.connection().execute("SELECT id, value FROM strings"))
    details = Details(session)
    found = []
    for values in cursor:
        row = dict(zip(names, values, strict=True))
        for name in _STRING_COLUMNS:
            row[name] = texts[row[name]] if row[name] is not None else None
        row["task_id"] = row["task_id"].hex()
        row["parent"] = row["parent"].hex() if row["parent"] else None
        row["detail"] = details.get(row["detail"], row.pop("stdout_start"), row.pop("stderr_start"))
        found.append(row)
    return found


_STRING_COLUMNS = (
    "job", "state", "type", "name", "func", "language", "node", "worker", "actor",
    "placement_group", "error_type", "required_resources", "runtime_env", "label_selector",
    "call_site",
)  # fmt: skip


def compiled_records(session: CompiledSession) -> dict[str, list[Any]]:
    """Give the records of what is few: actors, jobs, nodes and workers."""
    kinds: dict[str, type[Any]] = {
        "actors": ActorRecord,
        "jobs": JobRecord,
        "nodes": NodeRecord,
        "workers": WorkerRecord,
    }
    return {
        table: [
            msgspec.msgpack.decode(body, type=kind)
            for (body,) in session.connection().execute(f"SELECT body FROM {table} ORDER BY row")
        ]
        for table, kind in kinds.items()
    }
