"""Log files of a session: names, Ray's groups of them, globs, and which node has which."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from historyserver.compiled.opener import CompiledSession

MAX_GLOB_CHARS = 1024


class LogNameError(ValueError):
    """A file name or glob that no log of a session can have."""


@dataclass(frozen=True, slots=True)
class LogFileRow:
    """One log file as the compiled session knows it."""

    node_id: str
    path: str
    size_bytes: int
    parts: bytes
    """msgpack list of `reading.source.LogPart`; decoded by who reads the bytes."""


def checked_path(name: str) -> str:
    """The path below the node's logs folder that a client named.

    Absolute paths as Ray reports them (`/tmp/ray/session_x/logs/worker-1.out`) are cut at the
    session's logs folder. Anything that could leave the folder raises `LogNameError`.
    """
    path = name
    if path.startswith("/"):
        match = re.match(r"/(?:[^/]+/)*session_[^/]+/logs/", path)
        if match is None:
            raise LogNameError("a log's name must be relative to the session's logs folder")
        path = path[match.end() :]
    parts = path.split("/")
    if not path or "\0" in path or len(path) > 4096 or any(p in ("", ".", "..") for p in parts):
        raise LogNameError("a log's name has no empty parts, no '.', no '..' and no NUL")
    return path


def find_file(session: CompiledSession, node_id: str, path: str) -> LogFileRow | None:
    """One file of one node, by its exact path."""
    row = (
        session.connection()
        .execute(
            "SELECT size_bytes, parts FROM log_files WHERE node_id = ? AND path = ?",
            (node_id, path),
        )
        .fetchone()
    )
    return None if row is None else LogFileRow(node_id, path, row[0], row[1])


def find_on_any_node(
    session: CompiledSession, *, prefix: str, suffix: str, node_id: str | None = None
) -> LogFileRow | None:
    """The first file whose path starts and ends so; on the given node, else on any.

    The prefix holds no glob characters: it is compared by range, which the key serves.
    """
    nodes = nodes_with_logs(session)
    if node_id is not None:
        nodes = [node_id, *(other for other in nodes if other != node_id)]
    for node in nodes:
        row = (
            session.connection()
            .execute(
                "SELECT path, size_bytes, parts FROM log_files WHERE node_id = ? AND path >= ?"
                " AND path < ? AND substr(path, ?) = ? ORDER BY path LIMIT 1",
                (node, prefix, prefix + "\U0010ffff", -len(suffix), suffix),
            )
            .fetchone()
        )
        if row is not None:
            return LogFileRow(node, row[0], row[1], row[2])
    return None


def find_by_pid(
    session: CompiledSession, *, node_id: str, pid: int, suffix: str
) -> LogFileRow | None:
    """The worker's file of a process; worker files are named `worker-ID-JOB-PID.out`."""
    row = (
        session.connection()
        .execute(
            "SELECT path, size_bytes, parts FROM log_files WHERE node_id = ?"
            " AND path >= 'worker-' AND path < 'worker.' AND path LIKE ? ORDER BY path LIMIT 1",
            (node_id, f"%-{pid}.{suffix}"),
        )
        .fetchone()
    )
    return None if row is None else LogFileRow(node_id, row[0], row[1], row[2])


def nodes_with_logs(session: CompiledSession) -> list[str]:
    """The nodes that have any log, in the order of their ids."""
    found: list[str] = []
    connection = session.connection()
    row = connection.execute("SELECT min(node_id) FROM log_files").fetchone()
    while row is not None and row[0] is not None:
        found.append(row[0])
        row = connection.execute(
            "SELECT min(node_id) FROM log_files WHERE node_id > ?", (row[0],)
        ).fetchone()
    return found


def node_of_address(session: CompiledSession, address: str) -> str | None:
    """The node of an IP address; of several (a pod came back) the one that started last."""
    row = (
        session.connection()
        .execute(
            "SELECT node_id FROM nodes WHERE ip_address = ? ORDER BY row DESC LIMIT 1", (address,)
        )
        .fetchone()
    )
    return None if row is None else str(row[0])


def knows_node(session: CompiledSession, node_id: str) -> bool:
    """Whether any data of the session speaks of this node."""
    connection = session.connection()
    return any(
        connection.execute(query, (node_id,)).fetchone() is not None
        for query in (
            "SELECT 1 FROM nodes WHERE node_id = ?",
            "SELECT 1 FROM log_files WHERE node_id = ? LIMIT 1",
        )
    )


def list_names(session: CompiledSession, node_id: str, glob: str) -> list[str]:
    """Files and folders (these end with `/`) of a node that match, as `pathlib.Path.glob` does.

    `*` stays within one folder; `**` means any number of folders. Raises `LogNameError`.
    """
    pattern = _segments(glob)
    rows = session.connection().execute(
        "SELECT path FROM log_files WHERE node_id = ? ORDER BY path", (node_id,)
    )
    folders: set[str] = set()
    found: list[str] = []
    for (path,) in rows:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            if folder in folders:
                continue
            folders.add(folder)
            if _matches(pattern, parts[:depth]):
                found.append(folder + "/")
        if pattern[-1] != "**" and _matches(pattern, parts):
            found.append(path)
    return sorted(found)


def by_group(names: Iterable[str]) -> dict[str, list[str]]:
    """Sort names into the groups that Ray's Logs page and `ray logs` show."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_group(name), []).append(name)
    return groups


def _group(name: str) -> str:
    """Which group: the first rule that fits, in Ray 2.55's order."""
    if "worker" in name and name.endswith((".out", ".err")):
        return "worker_" + name[-3:]
    if name.endswith(".log"):
        for mark, group in (("core-worker", "core_worker"), ("core-driver", "driver")):
            if mark in name:
                return group
    for mark, group in _MARKS:
        if mark in name:
            return group
    return "internal"


_MARKS = (
    ("raylet.", "raylet"),
    ("gcs_server.", "gcs_server"),
    ("log_monitor", "internal"),
    ("monitor", "autoscaler"),
    ("agent.", "agent"),
    ("dashboard.", "dashboard"),
)


def _segments(glob: str) -> tuple[str, ...]:
    segments = tuple(part for part in glob.split("/") if part not in ("", "."))
    if glob.startswith("/") or "\0" in glob or ".." in segments or len(glob) > MAX_GLOB_CHARS:
        raise LogNameError("a glob is relative to the logs folder and has no '..' and no NUL")
    if not segments:
        raise LogNameError("the glob is empty; use '*' for everything")
    return segments


def _matches(pattern: tuple[str, ...], parts: list[str]) -> bool:
    """Match segment by segment; `**` takes any number of them. Linear in both for each `**`."""
    reachable = {0}
    for part in (*parts, None):
        closed = set(reachable)
        for at in sorted(reachable):
            while at < len(pattern) and pattern[at] == "**":
                at += 1
                closed.add(at)
        if part is None:
            return len(pattern) in closed
        reachable = set()
        for at in closed:
            if at == len(pattern):
                continue
            if pattern[at] == "**":
                reachable.add(at)
            elif _segment(pattern[at]).match(part):
                reachable.add(at + 1)
    return False


@lru_cache(maxsize=256)
def _segment(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
