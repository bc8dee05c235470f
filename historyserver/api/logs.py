"""`/api/v0/logs`: which log files a node has, and their text. `/api/jobs/{id}/logs` too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import flask
import msgspec

from historyserver.api.answers import answer
from historyserver.api.errors import BadRequestError, NotKeptError, UnknownEntityError
from historyserver.api.log_reading import ReadRange, all_of, last_lines, without_ansi
from historyserver.api.routing import session_routes
from historyserver.queries import log_files, log_targets
from historyserver.queries.log_files import LogNameError
from historyserver.queries.log_targets import LogTarget, TargetNotFoundError
from historyserver.reading.frames import SourceChangedError
from historyserver.reading.logs import covered, read_log
from historyserver.reading.source import LogPart
from historyserver.sessions import OpenSession

routes = session_routes("logs")

DEFAULT_LINES = 1000
"""As Ray: without `lines` (or with 0) the last thousand."""
MAX_JOB_LOG_BYTES = 64 * 1024 * 1024
"""`/api/jobs/{id}/logs` is one JSON string, so it must fit in memory; the end is what is kept."""
TEXT = "text/plain; charset=utf-8"
RANGE_HEADER = "X-Ray-History-Log-Range"
GAPS_HEADER = "X-Ray-History-Log-Missing-Bytes"

_parts = msgspec.msgpack.Decoder(list[LogPart])


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The query of `/api/v0/logs/file`, checked."""

    node_id: str
    node_ip: str
    filename: str
    task_id: str
    actor_id: str
    submission_id: str
    pid: int | None
    attempt: int
    suffix: str
    lines: int
    filter_ansi: bool
    download_name: str


@routes.get("/api/v0/logs")
def list_logs(session: OpenSession) -> flask.Response:
    """The names of a node's log files, in Ray's groups."""
    node_id = _node(session, flask.request.args.get("node_id"), flask.request.args.get("node_ip"))
    try:
        names = log_files.list_names(
            session.compiled, node_id, flask.request.args.get("glob") or "*"
        )
    except LogNameError as error:
        raise BadRequestError(str(error)) from error
    return answer(
        {"result": True, "msg": "", "data": {"result": log_files.by_group(names)}},
    )


@routes.get("/api/v0/logs/file")
def log_file(session: OpenSession) -> flask.Response:
    """The text of a log: the last lines, or all with `lines=-1`."""
    query = _parse_query()
    target = _target(session, query)
    read, missing_bytes = _reader(session, target)
    if query.lines < 0:
        chunks = all_of(read, target.start, target.end)
    else:
        chunks = last_lines(read, target.start, target.end, lines=query.lines)
    if query.filter_ansi:
        chunks = without_ansi(chunks)
    headers = {
        "Content-Disposition": _attachment(query.download_name),
        RANGE_HEADER: target.kind.value,
    }
    if missing_bytes:
        headers[GAPS_HEADER] = str(missing_bytes)
    return answer(_with_first_chunk(chunks, session), content_type=TEXT, headers=headers)


@routes.get("/api/v0/logs/stream")
def log_stream(_session: OpenSession) -> flask.Response:
    """Following a log needs a running cluster."""
    raise NotKeptError(
        "following a log needs the running cluster; the stored log is at /api/v0/logs/file"
    )


@routes.get("/api/jobs/<submission_id>/logs")
def job_logs(session: OpenSession, submission_id: str) -> flask.Response:
    """What the driver of a submitted job printed, as `ray job logs` wants it."""
    try:
        target = log_targets.of_submission(session.compiled, submission_id=submission_id)
    except TargetNotFoundError as error:
        raise UnknownEntityError(str(error)) from error
    read, _ = _reader(session, target)
    start = max(target.start, target.end - MAX_JOB_LOG_BYTES)
    with _told_when_gone(session):
        text = b"".join(all_of(read, start, target.end)).decode("utf-8", "replace")
    return answer({"logs": text})


def _parse_query() -> LogQuery:
    args = flask.request.args
    suffix = args.get("suffix", "out")
    if suffix not in ("out", "err"):
        raise BadRequestError("suffix must be out or err")
    download_format = args.get("format", "")
    if download_format not in ("", "text", "leading_1"):
        raise BadRequestError("format must be text or leading_1")
    lines = _number("lines", default=DEFAULT_LINES) or DEFAULT_LINES
    if lines < -1:
        raise BadRequestError("lines must be positive, or -1 for all")
    return LogQuery(
        node_id=args.get("node_id", ""),
        node_ip=args.get("node_ip", ""),
        filename=args.get("filename", ""),
        task_id=args.get("task_id", "").lower(),
        actor_id=args.get("actor_id", "").lower(),
        submission_id=args.get("submission_id", ""),
        pid=_number("pid", default=None),
        attempt=_number("attempt_number", default=0) or 0,
        suffix=suffix,
        lines=lines,
        filter_ansi=args.get("filter_ansi_code", "").lower() == "true",
        download_name=args.get("download_filename") or "file.txt",
    )


def _number(name: str, *, default: int | None) -> int | None:
    text = flask.request.args.get(name)
    if text in (None, ""):
        return default
    try:
        value = int(text)
    except ValueError as error:
        raise BadRequestError(f"{name} must be a whole number") from error
    if abs(value) > 2**53:
        raise BadRequestError(f"{name} is out of range")
    return value


def _target(session: OpenSession, query: LogQuery) -> LogTarget:
    """Which bytes; the ways to name them are tried in Ray's order."""
    compiled = session.compiled
    try:
        if query.actor_id:
            return log_targets.of_actor(compiled, actor_id=query.actor_id, suffix=query.suffix)
        if query.task_id:
            return log_targets.of_task(
                compiled, task_id=query.task_id, attempt=query.attempt, suffix=query.suffix
            )
        if query.submission_id:
            return log_targets.of_submission(
                compiled, submission_id=query.submission_id, node_id=query.node_id or None
            )
        if query.pid is None and not query.filename:
            raise BadRequestError(
                "say which log: filename or pid with node_id or node_ip, "
                "or task_id, actor_id or submission_id"
            )
        node_id = _node(session, query.node_id, query.node_ip)
        if query.pid is not None:
            return log_targets.of_process(
                compiled, node_id=node_id, pid=query.pid, suffix=query.suffix
            )
        return log_targets.of_file(compiled, node_id=node_id, name=query.filename)
    except LogNameError as error:
        raise BadRequestError(str(error)) from error
    except TargetNotFoundError as error:
        raise UnknownEntityError(str(error)) from error


def _node(session: OpenSession, node_id: str | None, node_ip: str | None) -> str:
    if node_id and node_ip:
        raise BadRequestError("give node_id or node_ip, not both")
    if node_id:
        if not log_files.knows_node(session.compiled, node_id):
            raise UnknownEntityError(f"the session has no node {node_id[:80]!r}")
        return node_id
    if node_ip:
        found = log_files.node_of_address(session.compiled, node_ip)
        if found is None:
            raise UnknownEntityError(f"the session has no node with the address {node_ip[:80]!r}")
        return found
    raise BadRequestError(
        "Both node id and node ip are not provided. Please provide at least one of them."
    )


def _reader(session: OpenSession, target: LogTarget) -> tuple[ReadRange, int]:
    """How to read the file, and how many bytes of the wanted range were never stored."""
    parts = tuple(_parts.decode(target.file.parts))
    stored = sum(end - start for start, end in covered(parts, target.start, target.end))
    backend = session.backend

    def read(start: int, end: int) -> Iterator[bytes]:
        return read_log(backend, parts, start, end)

    return read, max(0, target.end - target.start - stored)


def _with_first_chunk(chunks: Iterator[bytes], session: OpenSession) -> Iterator[bytes]:
    """The same chunks, the first already read: a failing store is an error, not a cut answer."""
    with _told_when_gone(session):
        first = next(chunks, b"")

    def go_on() -> Iterator[bytes]:
        yield first
        yield from chunks

    return go_on()


@contextlib.contextmanager
def _told_when_gone(session: OpenSession) -> Iterator[None]:
    """While a session runs its objects move, and asking again helps; later they were removed."""
    try:
        yield
    except SourceChangedError as error:
        if session.compiled.meta.is_running:
            raise
        raise UnknownEntityError("this log was removed from the storage") from error


def _attachment(name: str) -> str:
    """A Content-Disposition that no file name can break out of."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\/' else "_" for c in name)
    header = f'attachment; filename="{plain[:200]}"'
    if plain != name:
        safe = name.replace("/", "_").replace("\\", "_")[:200]
        header += f"; filename*=UTF-8''{quote(safe, safe='', errors='replace')}"
    return header
