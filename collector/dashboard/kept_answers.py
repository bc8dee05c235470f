"""The last answer of each endpoint on the local disk, and whether storage has it.

A collector that is killed between polls leaves them here; the next one ships them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import msgspec

from collector.whole_files import replace_file
from storage.backend import Backend
from storage.layout import SessionRef, endpoint_key, snapshot_key
from storage.wire import SnapshotEnvelope, WireError, decode_snapshot, encode_snapshot

_SUFFIX = ".json.zst"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One answer that should be stored; its body stays on the disk until it is."""

    name: str
    """The request's path with its query."""
    taken_ms: int
    path: Path
    """The envelope, as `storage.wire` encodes it."""
    kept_by_kuberay: bool
    """Also put as KubeRay's `fetched_endpoints`, so that its server can answer."""


class SnapshotFolder:
    """The local folder of one session's snapshots. Files are replaced whole."""

    def __init__(self, directory: Path, *, is_kept: Callable[[str], bool]) -> None:
        self._directory = directory
        self._is_kept = is_kept

    def write(self, envelope: SnapshotEnvelope) -> Snapshot:
        """Keep an answer in place of the last one."""
        replace_file(self._path(envelope.name), encode_snapshot(envelope))
        return self._snapshot(envelope.name, envelope.taken_ms)

    def read(self, name: str) -> SnapshotEnvelope | None:
        """The last answer, if there is one that can be read."""
        try:
            return decode_snapshot(self._path(name).read_bytes(), source=name)
        except (OSError, WireError):
            return None

    def has(self, name: str) -> bool:
        """Whether there is an answer."""
        return self._path(name).exists()

    def unshipped(self) -> list[Snapshot]:
        """What an earlier process kept and did not see stored."""
        found: list[Snapshot] = []
        if not self._directory.is_dir():
            return found
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            with contextlib.suppress(OSError, WireError):
                envelope = decode_snapshot(path.read_bytes(), source=path.name)
                if self._path(envelope.name) != path:
                    continue
                if shipped_ms(path) != envelope.taken_ms:
                    found.append(self._snapshot(envelope.name, envelope.taken_ms))
        return found

    def _snapshot(self, name: str, taken_ms: int) -> Snapshot:
        return Snapshot(name, taken_ms, self._path(name), self._is_kept(name))

    def _path(self, name: str) -> Path:
        return self._directory / f"{quote(name, safe='')}{_SUFFIX}"


def shipped_ms(path: Path) -> int:
    """When the answer was taken that storage has of this one; 0 for none."""
    try:
        return int(_mark(path).read_text())
    except (OSError, ValueError):
        return 0


def put_snapshot(backend: Backend, ref: SessionRef, snapshot: Snapshot) -> None:
    """Store an answer as ours and, where KubeRay keeps it too, as KubeRay does.

    What is put is what the local file holds now: a newer answer than the one that was
    asked for is only better.
    """
    data = snapshot.path.read_bytes()
    backend.put(snapshot_key(ref, snapshot.name), data)
    envelope = decode_snapshot(data, source=snapshot.name)
    if snapshot.kept_by_kuberay:
        backend.put(endpoint_key(ref, snapshot.name), verbatim(envelope))
    _mark(snapshot.path).write_text(str(envelope.taken_ms))


def verbatim(envelope: SnapshotEnvelope) -> bytes:
    """The answer as it came: the envelope has text that is no JSON as a JSON string."""
    body = bytes(envelope.body)
    if body.startswith(b'"') and "json" not in envelope.content_type:
        return msgspec.json.decode(body, type=str).encode()
    return body


def _mark(path: Path) -> Path:
    return path.with_name(path.name + ".shipped")
