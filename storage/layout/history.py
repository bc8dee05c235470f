"""Keys of our own tree, beside KubeRay's: live segments, manifests, snapshots, compiled sessions.

```
history/v1/sessions/{ns}/{cluster}/{session}/session.json       create-only, first collector wins
    nodes/{node}/hot/{seq:012d}.seg                              live segment
    nodes/{node}/manifest.json
    snapshots/{escaped name}.json.zst                            latest answer per endpoint
    end.json
    compiled/{schema}-{fingerprint}.sqlite.zst
history/v1/catalogue/{YYYY-MM-DD}/{ns}/{cluster}/{session}.json
```
The owner is no part of these keys (a session's name is unique in its cluster); session.json and
the catalogue's entries hold it. A parsed `SessionRef` is therefore one without owner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime

from storage.backend import InvalidKeyError
from storage.keys import check_key, shown
from storage.layout.names import (
    SessionRef,
    checked_node,
    escaped,
    is_node_id,
    session_started_ms,
    unescaped,
)

HISTORY_ROOT = "history/v1/"
SESSIONS_PREFIX = "history/v1/sessions/"
CATALOGUE_PREFIX = "history/v1/catalogue/"

_SEQ_LIMIT = 10**12
_SEGMENT = re.compile(r"([0-9]{12})\.seg")
_COMPILED = re.compile(r"([0-9]{1,9})-([0-9A-Za-z]{1,128})\.sqlite\.zst")
_FINGERPRINT = re.compile(r"[0-9A-Za-z]{1,128}")
_SNAPSHOT_SUFFIX = ".json.zst"


@dataclass(frozen=True, slots=True)
class HotSegmentKey:
    """A live segment of one node."""

    session: SessionRef
    node_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class ManifestKey:
    """What one node's collector says that it stored."""

    session: SessionRef
    node_id: str


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """The latest answer of one endpoint of the live dashboard."""

    session: SessionRef
    name: str


@dataclass(frozen=True, slots=True)
class CompiledKey:
    """A compiled session: by what schema, from what."""

    session: SessionRef
    schema_version: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class CatalogueKey:
    """A session's entry in the list of sessions of one day."""

    session: SessionRef
    day: str


def cluster_prefix(namespace: str, cluster: str) -> str:
    """Where our tree keeps the sessions of a cluster; ends with `/`."""
    _ = SessionRef(namespace, cluster, "session_2000-01-01_00-00-00_000000")
    return f"{SESSIONS_PREFIX}{namespace}/{cluster}/"


def session_prefix(ref: SessionRef) -> str:
    """Where our tree keeps the session; ends with `/`."""
    return f"{SESSIONS_PREFIX}{ref.namespace}/{ref.cluster}/{ref.session}/"


def nodes_prefix(ref: SessionRef) -> str:
    """All nodes of the session; ends with `/`."""
    return f"{session_prefix(ref)}nodes/"


def node_prefix(ref: SessionRef, node_id: str) -> str:
    """One node of the session; ends with `/`."""
    return f"{nodes_prefix(ref)}{checked_node(node_id)}/"


def hot_prefix(ref: SessionRef, node_id: str) -> str:
    """The live segments of one node; ends with `/`."""
    return f"{node_prefix(ref, node_id)}hot/"


def snapshots_prefix(ref: SessionRef) -> str:
    """All snapshots of the session; ends with `/`."""
    return f"{session_prefix(ref)}snapshots/"


def compiled_prefix(ref: SessionRef) -> str:
    """All compiled files of the session; ends with `/`."""
    return f"{session_prefix(ref)}compiled/"


def catalogue_prefix(day: str = "") -> str:
    """The catalogue, or one day of it (YYYY-MM-DD); ends with `/`."""
    return f"{CATALOGUE_PREFIX}{_checked_day(day)}/" if day else CATALOGUE_PREFIX


def catalogue_day(ref: SessionRef) -> str:
    """The day under which the catalogue keeps the session: the UTC day of its start."""
    started_s = session_started_ms(ref.session) // 1000
    return datetime.fromtimestamp(started_s, UTC).strftime("%Y-%m-%d")


def session_json_key(ref: SessionRef) -> str:
    """Who the session is: `wire.SessionStart`."""
    return f"{session_prefix(ref)}session.json"


def end_key(ref: SessionRef) -> str:
    """How the session ended: `wire.SessionEnd`."""
    return f"{session_prefix(ref)}end.json"


def manifest_key(ref: SessionRef, node_id: str) -> str:
    """What is stored of one node: `wire.NodeManifest`."""
    return f"{node_prefix(ref, node_id)}manifest.json"


def hot_segment_key(ref: SessionRef, node_id: str, seq: int) -> str:
    """The live segment number `seq`; byte order of keys is the order of numbers."""
    if not 0 <= seq < _SEQ_LIMIT:
        raise InvalidKeyError(f"{seq}: not a segment number from 0 to {_SEQ_LIMIT - 1}")
    return f"{hot_prefix(ref, node_id)}{seq:012d}.seg"


def snapshot_key(ref: SessionRef, name: str) -> str:
    """The latest answer to the request `name` (path with query): `wire.SnapshotEnvelope`."""
    return check_key(f"{snapshots_prefix(ref)}{escaped(name)}{_SNAPSHOT_SUFFIX}")


def compiled_key(ref: SessionRef, schema_version: int, fingerprint: str) -> str:
    """The compiled session; immutable, so it is stored create-only."""
    if not 0 <= schema_version < 10**9 or _FINGERPRINT.fullmatch(fingerprint) is None:
        raise InvalidKeyError(
            f"{schema_version}-{shown(fingerprint)}: not a schema version and a fingerprint"
        )
    return f"{compiled_prefix(ref)}{schema_version}-{fingerprint}.sqlite.zst"


def catalogue_key(ref: SessionRef, day: str = "") -> str:
    """The session's entry in the catalogue: `wire.CatalogueEntry`. `day`: see `catalogue_day`."""
    prefix = catalogue_prefix(day or catalogue_day(ref))
    return f"{prefix}{ref.namespace}/{ref.cluster}/{ref.session}.json"


def parse_session_json_key(key: str) -> SessionRef | None:
    """Read the key of a session.json; None when this is none."""
    match _split(key):
        case (ref, ["session.json"]):
            return ref
        case _:
            return None


def parse_end_key(key: str) -> SessionRef | None:
    """Read the key of an end.json; None when this is none."""
    match _split(key):
        case (ref, ["end.json"]):
            return ref
        case _:
            return None


def parse_manifest_key(key: str) -> ManifestKey | None:
    """Read the key of a node's manifest; None when this is none."""
    match _split(key):
        case (ref, ["nodes", node_id, "manifest.json"]) if is_node_id(node_id):
            return ManifestKey(ref, node_id)
        case _:
            return None


def parse_hot_segment_key(key: str) -> HotSegmentKey | None:
    """Read the key of a live segment; None when this is none."""
    match _split(key):
        case (ref, ["nodes", node_id, "hot", name]) if is_node_id(node_id):
            match = _SEGMENT.fullmatch(name)
            return None if match is None else HotSegmentKey(ref, node_id, int(match[1]))
        case _:
            return None


def parse_snapshot_key(key: str) -> SnapshotKey | None:
    """Read the key of a snapshot; None when this is none."""
    match _split(key):
        case (ref, ["snapshots", file]) if file.endswith(_SNAPSHOT_SUFFIX):
            name = unescaped(file.removesuffix(_SNAPSHOT_SUFFIX))
            return None if name is None else SnapshotKey(ref, name)
        case _:
            return None


def parse_compiled_key(key: str) -> CompiledKey | None:
    """Read the key of a compiled session; None when this is none."""
    match _split(key):
        case (ref, ["compiled", file]):
            match = _COMPILED.fullmatch(file)
            return None if match is None else CompiledKey(ref, int(match[1]), match[2])
        case _:
            return None


def parse_catalogue_key(key: str) -> CatalogueKey | None:
    """Read the key of a catalogue entry; None when this is none."""
    match key.split("/"):
        case ["history", "v1", "catalogue", day, namespace, cluster, file] if file.endswith(
            ".json"
        ):
            try:
                ref = SessionRef(namespace, cluster, file.removesuffix(".json"))
                return CatalogueKey(ref, _checked_day(day))
            except InvalidKeyError:
                return None
        case _:
            return None


def _split(key: str) -> tuple[SessionRef, list[str]] | None:
    match key.split("/"):
        case ["history", "v1", "sessions", namespace, cluster, session, *rest]:
            try:
                return SessionRef(namespace, cluster, session), rest
            except InvalidKeyError:
                return None
        case _:
            return None


def _checked_day(day: str) -> str:
    try:
        if date.fromisoformat(day).isoformat() == day:
            return day
    except ValueError:
        pass
    raise InvalidKeyError(f"{shown(day)!r}: not a day (YYYY-MM-DD)")
