"""Which Ray session runs on this node, and where its files are.

Ray's session directories lie in its temporary root (`/tmp/ray`) as
`session_<date>_<time>_<usec>_<pid>`; `session_latest` links to the newest one. Ray removes the
link and creates it again, and its modification time changes while nothing restarted, so only
where it points counts, and while it is not there nothing has changed. The raylet's node id is
in the names of the `*_port_<node id>` files of the session directory, within a second of the
raylet's start; other sources are asked only when those files are not there.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from storage.layout import is_ray_node_id, is_session_name

LATEST = "session_latest"
NODE_ID_FILES = ("raylet_node_id", "alibabacloud_raylet_node_id")
"""What the start hooks of the GKE guide and of ACK write into Ray's temporary root."""

_PORT_FILE = re.compile(r"([a-z_]+)_port_([0-9a-f]{56})")
_HEAD_PORT = "gcs_server"
_CONNECT_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class RaySession:
    """One Ray session on this node: what tails, journal and shipper work for."""

    session_name: str
    """`session_2026-11-30_19-57-10_681566_45`."""
    session_dir: Path
    node_id: str
    """56 hex digits, lower case."""
    logs_dir: Path
    """`<session dir>/logs`; may not exist yet, or no longer."""
    tmp_root: Path
    """Ray's temporary root, `/tmp/ray` by default."""


class NodeIdSource(Enum):
    """Where the node id came from: log field."""

    OPTION = "option"
    PORT_FILES = "port_files"
    NODE_ID_FILE = "node_id_file"
    DASHBOARD = "dashboard"


def session_of(tmp_root: Path, session_name: str, node_id: str) -> RaySession:
    """The session with this name in this root, whether it is there or not."""
    directory = tmp_root / session_name
    return RaySession(session_name, directory, node_id, directory / "logs", tmp_root)


def latest_session(tmp_root: Path) -> str | None:
    """The name of the session that `session_latest` points to; None when that cannot be told.

    Only the last part of the target is used: Ray may see the root under another path than
    the collector does.
    """
    try:
        name = (tmp_root / LATEST).readlink().name
    except OSError:
        return None
    if not is_session_name(name) or not (tmp_root / name).is_dir():
        return None
    return name


def old_sessions(tmp_root: Path, current: str) -> list[str]:
    """Names of the session directories that are older than `current`, oldest first."""
    try:
        names = [
            entry.name for entry in os.scandir(tmp_root) if entry.is_dir(follow_symlinks=False)
        ]
    except OSError:
        return []
    return sorted(name for name in names if is_session_name(name) and name < current)


def node_id_of_port_files(session_dir: Path, *, is_head: bool) -> str | None:
    """The node id in the names of the session's port files; None when there are none.

    Several ids are there when the raylet's container restarted within the session, or when
    several raylets run on one host. Only a head has a `gcs_server` file, so a head takes
    among the ids with one and a worker among those without, if there are such; of these
    the one whose files are newest.
    """
    newest_ns: dict[str, int] = {}
    heads: set[str] = set()
    try:
        entries = list(os.scandir(session_dir))
    except OSError:
        return None
    for entry in entries:
        match = _PORT_FILE.fullmatch(entry.name)
        if match is None:
            continue
        try:
            changed_ns = entry.stat(follow_symlinks=False).st_mtime_ns
        except OSError:
            continue
        newest_ns[match[2]] = max(changed_ns, newest_ns.get(match[2], 0))
        if match[1] == _HEAD_PORT:
            heads.add(match[2])
    fitting = [node_id for node_id in newest_ns if (node_id in heads) == is_head]
    return max(fitting or newest_ns, key=lambda node_id: newest_ns[node_id], default=None)


def node_id_of_hook_files(tmp_root: Path, *, not_before_ns: int = 0) -> str | None:
    """The node id that a start hook wrote; the newer file when there are two.

    Args:
        tmp_root: Ray's temporary root.
        not_before_ns: older files are of an earlier container and are not believed.

    """
    found: list[tuple[int, str]] = []
    for name in NODE_ID_FILES:
        try:
            # Not blocking: another container writes here, and it may be a pipe.
            handle = os.open(tmp_root / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                text = file.read(256).decode("ascii", errors="replace").strip().lower()
                changed_ns = os.fstat(handle).st_mtime_ns
        except OSError:
            continue
        if is_ray_node_id(text) and changed_ns >= not_before_ns:
            found.append((changed_ns, text))
    return max(found)[1] if found else None


class Raylet(Enum):
    """Whether the session's raylet runs."""

    UP = "up"
    GONE = "gone"
    UNKNOWN = "unknown"
    """Its socket may not be touched by this user."""


def probe_raylet(session_dir: Path) -> Raylet:
    """Try the raylet's sockets: a dead process refuses, its file stays. Blocks up to 1 s each.

    A raylet that starts where a stale `sockets/raylet` is takes a name such as `raylet.1`.
    """
    found = Raylet.GONE
    for path in sorted((session_dir / "sockets").glob("raylet*")):
        match _probe(path):
            case Raylet.UP:
                return Raylet.UP
            case Raylet.UNKNOWN:
                found = Raylet.UNKNOWN
            case Raylet.GONE:
                pass
    return found


def _probe(path: Path) -> Raylet:
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            return Raylet.GONE
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_CONNECT_TIMEOUT_S)
                # AF_UNIX takes 107 bytes at most; this is short however deep the folder lies.
                probe.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
    except (FileNotFoundError, ConnectionRefusedError):
        return Raylet.GONE
    except TimeoutError:
        return Raylet.UP
    except OSError:
        return Raylet.UNKNOWN
    return Raylet.UP


def last_activity_ms(session: RaySession) -> int | None:
    """When a log of the session last changed; None when there is no log."""
    newest_ns = 0
    try:
        for entry in os.scandir(session.logs_dir):
            if entry.is_file(follow_symlinks=False):
                newest_ns = max(newest_ns, entry.stat(follow_symlinks=False).st_mtime_ns)
    except OSError:
        pass
    return newest_ns // 1_000_000 or None


def local_node_id(
    session: str, tmp_root: Path, *, is_head: bool
) -> tuple[str, NodeIdSource] | None:
    """The node id of a session as Ray's files tell it."""
    session_dir = tmp_root / session
    node_id = node_id_of_port_files(session_dir, is_head=is_head)
    if node_id is not None:
        return node_id, NodeIdSource.PORT_FILES
    try:
        not_before_ns = min(
            entry.stat(follow_symlinks=False).st_mtime_ns for entry in os.scandir(session_dir)
        )
    except (OSError, ValueError):
        return None
    node_id = node_id_of_hook_files(tmp_root, not_before_ns=not_before_ns)
    return (node_id, NodeIdSource.NODE_ID_FILE) if node_id is not None else None
