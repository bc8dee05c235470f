"""Keys of KubeRay's collectors, all four generations of them; we write generation C.

| generation | written by | marker | data |
|---|---|---|---|
| A | v1.6 | `metadir/{cluster}_{ns}/{session}` | `{cluster}_{ns}/{session}/...`, kinds first |
| B | nightlies until 2026-07-30 | as C | as A, event files end with `.gz` |
| C- | nightlies until 2026-08-05 | as C | as C, but `{node}-{hour}.gz` with a JSON array |
| C | v1.7 and later | `cluster-metadata/{kind}/{ns}_{cluster}/{session}` | `cluster-history/...` |

All information of a marker is in its key. Whether an event file holds lines or an array is
told by its first byte, not by the key. Keys are relative to the storage root.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from storage.backend import InvalidKeyError
from storage.keys import check_key
from storage.layout.names import (
    CLUSTER_KIND,
    OWNER_KINDS,
    SessionRef,
    checked_job,
    checked_node,
    checked_path,
    is_node_id,
    job_from_folder,
)

MARKER_ROOT = "cluster-metadata/"
DATA_ROOT = "cluster-history/"
LEGACY_MARKER_ROOT = "metadir/"

NODE_EVENTS = "node_events"
JOB_EVENTS = "job_events"
LOGS = "logs"
ENDPOINTS = "fetched_endpoints"

Category = str | tuple[str, str]
"""`"node_events"`, or `("job_events", hex job id)`."""

_EVENT_FILE = re.compile(
    r"(?P<node>[0-9a-f]{1,128})-(?P<hour>\d{4}-\d\d-\d\d-\d\d)"
    r"(?:-(?P<ns>\d{1,19}))?(?P<lines>\.jsonl)?(?P<gzip>\.gz)?",
    re.ASCII,
)
_ENDPOINT_PREFIX = "restful__"
_ENDPOINTS_WITH_SLASH = frozenset({"/api/serve/applications", "/api/jobs"})


class Generation(StrEnum):
    """Whose layout, in the order in which they came."""

    A = "A"
    B = "B"
    C_MINUS = "C-"
    C = "C"
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class MarkerKey:
    """An empty object that says: this session exists. `legacy` means generation A."""

    session: SessionRef
    legacy: bool


@dataclass(frozen=True, slots=True)
class EventKey:
    """An object with events of one node."""

    session: SessionRef
    generation: Generation
    node_id: str
    job_id: str
    """Hex; empty for node events, and when the folder's name does not tell."""
    hour: str
    """YYYY-MM-DD-HH when the file was begun (C) or of its events (A, B)."""
    created_ns: int
    """0 where the generation does not keep it."""
    gzip: bool


@dataclass(frozen=True, slots=True)
class LogKey:
    """One log file of one node. `legacy` means the tree of generations A and B."""

    session: SessionRef
    node_id: str
    path: str
    legacy: bool


@dataclass(frozen=True, slots=True)
class EndpointKey:
    """One kept answer of the live dashboard, body only."""

    session: SessionRef
    name: str
    """The request's path with its query, as our snapshots name it."""
    legacy: bool


def marker_key(ref: SessionRef) -> str:
    """The marker of generation C; it names the owner, if there is one."""
    _unambiguous(ref)
    owner = f"{ref.owner_name}_" if ref.owner_name else ""
    return f"{MARKER_ROOT}{ref.kind}/{ref.namespace}_{owner}{ref.cluster}/{ref.session}"


def kuberay_session_prefix(ref: SessionRef) -> str:
    """Where generation C (and C-) keeps the session's data; ends with `/`."""
    _unambiguous(ref)
    owner = f"{ref.owner_name}/" if ref.owner_name else ""
    return f"{DATA_ROOT}{ref.kind}/{ref.namespace}/{owner}{ref.cluster}/{ref.session}/"


def kuberay_node_prefix(ref: SessionRef, node_id: str) -> str:
    """Where generation C keeps one node's events and logs; ends with `/`."""
    return f"{kuberay_session_prefix(ref)}{checked_node(node_id)}/"


def event_key(
    ref: SessionRef, node_id: str, category: Category, created_ns: int, gzip: bool = True
) -> str:
    """Generation C's key of an event file that was begun at `created_ns`."""
    kind = category if isinstance(category, str) else category[0]
    if (kind, isinstance(category, str)) not in {(NODE_EVENTS, True), (JOB_EVENTS, False)}:
        raise InvalidKeyError(f"{category!r}: not a category of event files")
    folder = kind if isinstance(category, str) else f"{kind}/{checked_job(category[1])}"
    hour = datetime.fromtimestamp(created_ns // 10**9, UTC).strftime("%Y-%m-%d-%H")
    name = f"{node_id}-{hour}-{created_ns}.jsonl{'.gz' if gzip else ''}"
    return check_key(f"{kuberay_node_prefix(ref, node_id)}{folder}/{name}")


def log_key(ref: SessionRef, node_id: str, path: str) -> str:
    """Generation C's key of one whole log file; `path` is relative to the logs folder."""
    return check_key(f"{kuberay_node_prefix(ref, node_id)}{LOGS}/{checked_path(path)}")


def endpoint_key(ref: SessionRef, name: str) -> str:
    """Generation C's key of a kept answer; `name` is the request's path with its query."""
    return check_key(f"{kuberay_session_prefix(ref)}{ENDPOINTS}/{_endpoint_file(name)}")


def legacy_marker_key(ref: SessionRef) -> str:
    """The marker of generation A."""
    return f"{LEGACY_MARKER_ROOT}{ref.cluster}_{ref.namespace}/{ref.session}"


def legacy_session_prefix(ref: SessionRef) -> str:
    """Where generations A and B keep the session's data; ends with `/`."""
    return f"{ref.cluster}_{ref.namespace}/{ref.session}/"


def parse_marker_key(key: str) -> MarkerKey | None:
    """Read a session marker of any generation; None when this is none."""
    match key.split("/"):
        case ["metadir", joined, session]:
            cluster, _, namespace = joined.partition("_")
            return _marker(namespace, cluster, session, legacy=True)
        case ["cluster-metadata", "raycluster", joined, session]:
            namespace, _, cluster = joined.partition("_")
            return _marker(namespace, cluster, session)
        case ["cluster-metadata", kind, joined, session] if joined.count("_") == 2:
            namespace, owner, cluster = joined.split("_")
            return _marker(namespace, cluster, session, owner_kind=kind, owner_name=owner)
        case _:
            return None


def parse_event_key(key: str) -> EventKey | None:
    """Read the key of an event file of any generation; None when this is none."""
    split = _split(key)
    if split is None:
        return None
    ref, legacy, parts = split
    folder_node = None
    if not legacy:
        if len(parts) < 3 or not is_node_id(parts[0]):
            return None
        folder_node, parts = parts[0], parts[1:]
    match = _EVENT_FILE.fullmatch(parts[-1])
    job_id = _job_of_folder(parts[:-1])
    if match is None or job_id is None or folder_node not in {None, match["node"]}:
        return None
    return EventKey(
        session=ref,
        generation=_generation(match, legacy=legacy),
        node_id=match["node"],
        job_id=job_id,
        hour=match["hour"],
        created_ns=int(match["ns"] or 0),
        gzip=match["gzip"] is not None,
    )


def parse_log_key(key: str) -> LogKey | None:
    """Read the key of a log file of any generation; None when this is none."""
    split = _split(key)
    if split is None:
        return None
    ref, legacy, parts = split
    if len(parts) < 3 or LOGS not in parts[:2]:
        return None
    node_id, kind = (parts[1], parts[0]) if legacy else (parts[0], parts[1])
    if kind != LOGS or not is_node_id(node_id):
        return None
    try:
        path = checked_path("/".join(parts[2:]))
    except InvalidKeyError:
        return None
    return LogKey(session=ref, node_id=node_id, path=path, legacy=legacy)


def parse_endpoint_key(key: str) -> EndpointKey | None:
    """Read the key of a kept answer of any generation; None when this is none."""
    split = _split(key)
    if split is None:
        return None
    ref, legacy, parts = split
    if len(parts) != 2 or parts[0] != ENDPOINTS or not parts[1].startswith(_ENDPOINT_PREFIX):
        return None
    path = "/" + parts[1].removeprefix(_ENDPOINT_PREFIX).replace("__", "/")
    name = f"{path}/" if path in _ENDPOINTS_WITH_SLASH else path
    return EndpointKey(session=ref, name=name, legacy=legacy)


def parse_data_session(key: str) -> tuple[SessionRef, bool] | None:
    """Whose data lies at this key or prefix (of a session's folder or below), and is it legacy.

    Finds sessions whose marker was never written: KubeRay writes the first one of a pod only
    at an orderly end.
    """
    split = _split(key)
    return None if split is None else split[:2]


def _endpoint_file(name: str) -> str:
    if not name.startswith("/") or not name.strip("/"):
        raise InvalidKeyError(f"{name!r}: not the path of a request")
    return _ENDPOINT_PREFIX + name.strip("/").replace("/", "__")


def _unambiguous(ref: SessionRef) -> None:
    if "_" in ref.namespace:
        raise InvalidKeyError(
            f"{ref.namespace!r}: KubeRay's keys join names with `_`, so a namespace cannot hold it"
        )


def _ref(
    namespace: str, cluster: str, session: str, owner_kind: str = "", owner_name: str = ""
) -> SessionRef | None:
    try:
        return SessionRef(namespace, cluster, session, owner_kind, owner_name)
    except InvalidKeyError:
        return None


def _marker(
    namespace: str,
    cluster: str,
    session: str,
    *,
    owner_kind: str = "",
    owner_name: str = "",
    legacy: bool = False,
) -> MarkerKey | None:
    ref = _ref(namespace, cluster, session, owner_kind, owner_name)
    return None if ref is None else MarkerKey(ref, legacy)


def _split(key: str) -> tuple[SessionRef, bool, list[str]] | None:
    """(session, is it the tree of A and B, the parts below the session's folder)."""
    parts = key.split("/")
    legacy = False
    match parts:
        case ["cluster-history", kind, namespace, owner, cluster, session, *rest] if (
            kind in OWNER_KINDS
        ):
            ref = _ref(namespace, cluster, session, kind, owner)
        case ["cluster-history", kind, namespace, cluster, session, *rest] if kind == CLUSTER_KIND:
            ref = _ref(namespace, cluster, session)
        case [joined, session, *rest] if "_" in joined:
            cluster, _, namespace = joined.partition("_")
            ref, legacy = _ref(namespace, cluster, session), True
        case _:
            return None
    if ref is None or (not legacy and "_" in ref.namespace):
        return None
    return ref, legacy, rest


def _job_of_folder(folders: list[str]) -> str | None:
    """Hex job id of an event file's folders, "" for node events; None when they hold no events."""
    match folders:
        case ["node_events"]:
            return ""
        case ["job_events", *job] if job:
            return job_from_folder("/".join(job))
        case _:
            return None


def _generation(match: re.Match[str], *, legacy: bool) -> Generation:
    if legacy:
        return Generation.B if match["gzip"] else Generation.A
    return Generation.C if match["lines"] else Generation.C_MINUS
