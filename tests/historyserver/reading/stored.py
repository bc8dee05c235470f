"""Stored sessions for the tests: the two that KubeRay's released collectors really wrote, the
same rewritten to the layouts of its nightlies, and sessions of our own layout."""

from __future__ import annotations

import gzip
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from storage.layout import (
    SessionRef,
    end_key,
    hot_segment_key,
    manifest_key,
    marker_key,
    session_json_key,
    snapshot_key,
)
from storage.local import LocalBackend
from storage.wire import (
    EventFrame,
    LogEntry,
    LogFrame,
    NodeManifest,
    SessionEnd,
    SessionStart,
    SnapshotEnvelope,
    encode_manifest,
    encode_session_end,
    encode_session_start,
    encode_snapshot,
    json_body,
)

SAMPLES = Path(__file__).parents[2] / "samples" / "kuberay-sessions.tar.gz"

V162 = SessionRef("ml", "v162", "session_2026-11-30_21-46-10_967041_1")
V170 = SessionRef("ml", "v170", "session_2026-11-30_21-46-10_843035_1")

HEAD = "a" * 56
WORKER = "b" * 56


def unpack_samples(directory: Path) -> Path:
    """Unpack the sample bucket, with the times of its files. Returns its folder."""
    with tarfile.open(SAMPLES) as archive:
        archive.extractall(directory, filter="data")
    return directory / "tree"


def objects_below(tree: Path) -> dict[str, bytes]:
    """Every object of a bucket on disk, by key."""
    return {
        str(path.relative_to(tree)): path.read_bytes()
        for path in tree.rglob("*")
        if path.is_file() and path.name != ".dir-marker"
    }


def put_as_b(source: dict[str, bytes], backend: LocalBackend) -> None:
    """Generation B: the data of A, event files gzipped, and the marker of C."""
    for key, body in source.items():
        if key.startswith("log/metadir/"):
            continue
        is_events = "/node_events/" in key or "/job_events/" in key
        new_key = key.removeprefix("log/") + (".gz" if is_events else "")
        backend.put(new_key, gzip.compress(body) if is_events else body)
    backend.put(marker_key(V162), b"")


def put_as_c_minus(source: dict[str, bytes], backend: LocalBackend) -> None:
    """Generation C-: the tree of C, but hourly gzip files with one JSON array each."""
    hours: dict[str, list[object]] = {}
    for key, body in source.items():
        if key.endswith(".jsonl"):
            hour_key = key.rpartition("-")[0] + ".gz"
            hours.setdefault(hour_key, []).extend(json.loads(line) for line in body.splitlines())
        else:
            backend.put(key, body)
    for key, events in hours.items():
        backend.put(key, gzip.compress(json.dumps(events, separators=(",", ":")).encode()))


@dataclass
class OurWriter:
    """Writes a session as our collector does, as far as reading needs it."""

    backend: LocalBackend
    ref: SessionRef
    logs: list[LogEntry] = field(default_factory=list)
    hot_events: list[EventFrame] = field(default_factory=list)

    def start(self, *, started_ms: int = 1_000, owner: tuple[str, str] = ("", "")) -> None:
        """Write session.json."""
        document = SessionStart(
            namespace=self.ref.namespace,
            cluster=self.ref.cluster,
            owner_kind=owner[0],
            owner_name=owner[1],
            session=self.ref.session,
            started_ms=started_ms,
            collector_version="0.1.0",
            node_id=HEAD,
            role="head",
        )
        self.backend.put(session_json_key(self.ref), encode_session_start(document))

    def segment(self, seq: int, frames: list[tuple[str, bytes, int]], node_id: str = HEAD) -> str:
        """Write a live segment of (log path or "" for events, bytes, log_start) frames."""
        body = b""
        for path, content, log_start in frames:
            packed = zstandard.compress(content)
            if path:
                entry = next((log for log in self.logs if log.path == path), None)
                if entry is None:
                    entry = LogEntry(path=path, size_bytes=0)
                    self.logs.append(entry)
                entry.frames.append(
                    LogFrame(
                        seq=seq,
                        object_start=len(body),
                        object_length=len(packed),
                        log_start=log_start,
                        log_length=len(content),
                    )
                )
                entry.size_bytes = max(entry.size_bytes, log_start + len(content))
            else:
                self.hot_events.append(
                    EventFrame(
                        seq=seq,
                        object_start=len(body),
                        object_length=len(packed),
                        events=content.count(b"\n"),
                    )
                )
            body += packed
        key = hot_segment_key(self.ref, node_id, seq)
        self.backend.put(key, body)
        return key

    def manifest(
        self,
        *,
        state: str = "running",
        updated_ms: int = 2_000,
        node_id: str = HEAD,
        role: str = "head",
    ) -> None:
        """Write the node's manifest that names all segments written so far."""
        document = NodeManifest(
            node_id=node_id,
            role=role,
            session=self.ref.session,
            state="ended" if state == "ended" else "running",
            updated_ms=updated_ms,
            collector_version="0.1.0",
            logs=self.logs,
            hot_events=self.hot_events,
        )
        self.backend.put(manifest_key(self.ref, node_id), encode_manifest(document))

    def snapshot(self, name: str, body: bytes, *, taken_ms: int = 3_000, status: int = 200) -> None:
        """Write a snapshot in its envelope."""
        envelope = SnapshotEnvelope(
            name=name,
            taken_ms=taken_ms,
            status=status,
            content_type="application/json",
            body=json_body(body),
        )
        self.backend.put(snapshot_key(self.ref, name), encode_snapshot(envelope))

    def end(self, ended_ms: int = 9_000) -> None:
        """Write end.json."""
        document = SessionEnd(
            ended_ms=ended_ms, reason="drained", node_id=HEAD, collector_version="0.1.0"
        )
        self.backend.put(end_key(self.ref), encode_session_end(document))
