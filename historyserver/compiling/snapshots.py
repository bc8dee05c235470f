"""Takes stored answers of the live dashboard into rows: collections split by their entities.

So a page about one actor reads one row, not the answer about all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import zstandard

from historyserver.reading.damage import DamageLog
from historyserver.reading.snapshots import read_snapshot
from historyserver.reading.source import SnapshotFile
from storage import endpoints
from storage.backend import Backend


class SnapshotRow(NamedTuple):
    """One answer or one item of it, as `CompiledWriter.add_snapshots` takes it."""

    name: str
    item: str
    taken_ms: int
    body: bytes
    """zstd of JSON."""


class Versions(msgspec.Struct, rename="camel"):
    """What the cluster's metadata tells of the session."""

    ray_version: str = ""
    python_version: str = ""


class _ClusterMetadata(msgspec.Struct):
    data: Versions


def versions_of(body: bytes) -> Versions:
    """Read the answer of `CLUSTER_METADATA`; what is not as expected tells nothing."""
    try:
        return msgspec.json.decode(body, type=_ClusterMetadata).data
    except (msgspec.MsgspecError, RecursionError):
        return Versions()


def snapshot_rows(
    backend: Backend,
    files: tuple[SnapshotFile, ...],
    damage: DamageLog,
    told: Callable[[Versions], None],
) -> Iterator[SnapshotRow]:
    """Read and split the stored answers. One that is no JSON is kept whole, as it is.

    Args:
        backend: where they are.
        files: which.
        damage: takes what cannot be read.
        told: hears what the cluster's metadata says, when they are stored.

    """
    compress = zstandard.ZstdCompressor(level=3).compress
    for file in files:
        found = read_snapshot(backend, file, damage)
        if found is None:
            continue
        taken_ms, body = found
        if file.name == endpoints.CLUSTER_METADATA:
            told(versions_of(body))
        for item, part in split(file.name, body):
            yield SnapshotRow(file.name, item, taken_ms, compress(part))


def split(name: str, body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (item, body) of an answer: the entities of a collection, then '' with the rest."""
    splitter = _splitter(name)
    if splitter is not None:
        try:
            value = msgspec.json.decode(body)
            items = splitter(value)
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, RecursionError):
            items = None
        if items is not None and all(isinstance(item, str) for item in items):
            encode = msgspec.json.encode
            yield from ((item, encode(part)) for item, part in items.items() if item)
            body = encode(value)
    yield "", body


def _splitter(name: str) -> Callable[[Any], dict[str, Any]] | None:
    if name in _SPLITTERS:
        return _SPLITTERS[name]
    if name in endpoints.ITEM_ID:
        key = endpoints.ITEM_ID[name]
        return lambda value: _take(value["data"]["result"], "result", lambda item: item[key])
    return None


def _split_logical_actors(value: Any) -> dict[str, Any]:
    actors: dict[str, Any] = value["data"]["actors"]
    value["data"]["actors"] = {}
    return dict(actors.items())


def _split_node_summary(value: Any) -> dict[str, Any]:
    return _take(value["data"], "summary", lambda item: item["raylet"]["nodeId"])


def _split_jobs(value: Any) -> dict[str, Any]:
    items = {job.get("submission_id") or job["job_id"]: job for job in value}
    value.clear()
    return items


def _take(holder: Any, field: str, identify: Callable[[Any], str]) -> dict[str, Any]:
    items = {identify(item): item for item in holder[field]}
    holder[field] = []
    return items


_SPLITTERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    endpoints.ACTOR_TABLE: _split_logical_actors,
    endpoints.NODE_SUMMARY: _split_node_summary,
    endpoints.JOBS: _split_jobs,
}
