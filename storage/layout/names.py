"""What keys are made of: sessions, nodes, jobs, log paths; validated both ways."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote, unquote

from storage.backend import InvalidKeyError
from storage.keys import part_fault, shown

OWNER_KINDS = ("rayjob", "rayservice")
"""What may own a RayCluster. KubeRay writes a cluster of its own as kind `raycluster`."""

CLUSTER_KIND = "raycluster"

# A name of Kubernetes, a little wider: v1.6 of KubeRay's collector checks neither of them. Its
# keys join `{cluster}_{namespace}`, so only the second may hold `_` (its "cluster id" is free).
_CLUSTER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_NAMESPACE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_SESSION = re.compile(
    r"session_(\d{4})-(\d\d)-(\d\d)_(\d\d)-(\d\d)-(\d\d)_(\d{6})(?:_\d{1,10})?", re.ASCII
)
_NODE = re.compile(r"[0-9a-f]{1,128}")
_RAY_NODE = re.compile(r"[0-9a-f]{56}")
_JOB = re.compile(r"(?:[0-9a-f]{2}){1,32}")
_JOB_ID_BYTES = 4


@dataclass(frozen=True, slots=True, order=True)
class SessionRef:
    """Which Ray session: everything that keys need to know of it.

    Raises `InvalidKeyError` for parts that cannot be in a key, so a ref is safe to build
    keys from, wherever its parts came from.
    """

    namespace: str
    cluster: str
    session: str
    owner_kind: str = ""
    """`rayjob`, `rayservice`, or empty for a cluster that nothing owns."""
    owner_name: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be in a key."""
        _matching(_NAMESPACE, self.namespace, "namespace")
        _matching(_CLUSTER, self.cluster, "cluster name")
        session_started_ms(self.session)
        if self.owner_kind or self.owner_name:
            if self.owner_kind not in OWNER_KINDS:
                raise InvalidKeyError(
                    f"{shown(self.owner_kind)!r}: not an owner kind; use one of {OWNER_KINDS}"
                )
            _matching(_CLUSTER, self.owner_name, "owner name")

    @property
    def kind(self) -> str:
        """The kind that users see: the owner's, else `raycluster`."""
        return self.owner_kind or CLUSTER_KIND

    @property
    def name(self) -> str:
        """The name that users see: the owner's, else the cluster's."""
        return self.owner_name or self.cluster


def session_started_ms(session: str) -> int:
    """When a session of this name started, in ms since the epoch.

    The name holds the local time of the head's pod, which is nearly always UTC; KubeRay's
    server reads it as UTC too. Raises `InvalidKeyError` when it is no session name.
    """
    match = _SESSION.fullmatch(session)
    if match is None:
        raise InvalidKeyError(
            f"{shown(session)!r}: not a Ray session name (session_YYYY-MM-DD_HH-MM-SS_ffffff_pid)"
        )
    year, month, day, hour, minute, second, microsecond = (int(group) for group in match.groups())
    try:
        started = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        raise InvalidKeyError(f"{session}: the session name holds no real time: {error}") from error
    return int(started.timestamp()) * 1000 + microsecond // 1000


def is_namespace(text: str) -> bool:
    """Tell whether sessions can have this namespace."""
    return _NAMESPACE.fullmatch(text) is not None


def is_cluster_name(text: str) -> bool:
    """Tell whether a cluster or its owner can have this name."""
    return _CLUSTER.fullmatch(text) is not None


@lru_cache(maxsize=1024)
def is_session_name(session: str) -> bool:
    """Whether `SessionRef` would take this as its session."""
    try:
        session_started_ms(session)
    except InvalidKeyError:
        return False
    return True


def checked_node(node_id: str) -> str:
    """A node id as keys hold it: lower-case hex, as in Ray's API."""
    return _matching(_NODE, node_id, "node id (lower-case hex)")


def is_node_id(text: str) -> bool:
    """Whether this is a node id as keys hold it."""
    return _NODE.fullmatch(text) is not None


def is_ray_node_id(text: str) -> bool:
    """Whether this is a node id as Ray itself makes them: 28 bytes in lower-case hex."""
    return _RAY_NODE.fullmatch(text) is not None


def checked_job(job_id: str) -> str:
    """A job id as we write it: lower-case hex, as in Ray's API."""
    return _matching(_JOB, job_id, "job id (lower-case hex)")


def checked_path(path: str) -> str:
    """A file's path below a node's logs folder: relative, nothing in it leads out."""
    for part in path.split("/"):
        fault = part_fault(part)
        if fault is not None:
            raise InvalidKeyError(f"{shown(path)!r}: not a log path that can be stored: {fault}")
    return path


def job_from_folder(folder: str) -> str:
    """The hex job id that a `job_events` folder of any generation stands for; "" if unknowable.

    Generations A, B and the first of C- name the folder by the raw base64 of the event, whose
    `/` splits it into two parts; Go's `path.Join` drops a leading one (`/AAAAA==`, job 252).
    Callers read the job from the events, so an unknowable folder is no reason to skip a file.
    """
    if len(folder) == 2 * _JOB_ID_BYTES and _JOB.fullmatch(folder):
        return folder
    bare = folder.rstrip("=").replace("-", "+").replace("_", "/")
    if len(bare) < 6 and "/" in bare:
        return ""  # Whether the lost `/` was in front is not known.
    try:
        raw = base64.b64decode(bare.rjust(6, "/") + "==", validate=True)
    except binascii.Error:
        return ""
    return raw.hex() if len(raw) == _JOB_ID_BYTES else ""


def escaped(name: str) -> str:
    """Any text as one part of a key, reversibly (percent-encoding, `/` included)."""
    if not name:
        raise InvalidKeyError("'': an empty name cannot be part of a key")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError as error:
        raise InvalidKeyError(f"{shown(name)!r}: not valid Unicode") from error


def unescaped(part: str) -> str | None:
    """What `escaped` made this from; None when it did not."""
    try:
        name = unquote(part, errors="strict")
        return name if name and escaped(name) == part else None
    except (UnicodeDecodeError, InvalidKeyError):
        return None


def _matching(pattern: re.Pattern[str], text: str, what: str) -> str:
    if pattern.fullmatch(text) is None:
        raise InvalidKeyError(f"{shown(text)!r}: not a {what} that can be part of a key")
    return text
