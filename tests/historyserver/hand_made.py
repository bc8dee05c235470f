"""Compiled sessions made by hand, for tests that need a particular row or log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
import zstandard

from historyserver.access import OpenPolicy, Policy
from historyserver.catalogue import Catalogue, SessionEntry
from historyserver.compiled.details import DetailPacker, detail_number
from historyserver.compiled.meta import Meta
from historyserver.compiled.opener import CompiledSession, open_compiled
from historyserver.compiled.schema import SCHEMA_VERSION
from historyserver.compiled.writer import TASK_COLUMNS, CompiledWriter
from historyserver.dashboard.files import DashboardFiles
from historyserver.folding.records import ActorRecord, LogInfo, NodeRecord, TaskDetail
from historyserver.folding.session_state import SessionState
from historyserver.metrics import ServerMetrics
from historyserver.reading.source import LogPart
from historyserver.reading.state import StateReason
from historyserver.sessions import (
    CompileLimits,
    OpenSession,
    SessionPreparer,
    Sessions,
    SessionWatch,
)
from historyserver.sessions.preparing import Prepared, Preparer
from historyserver.sessions.watching import Unwatched
from historyserver.web.app import AppParts, WebApp, create_app
from storage.backend import Backend
from storage.layout import SessionRef

SESSION = "session_2026-11-30_21-46-10_843035_1"
REF = SessionRef("ml", "v170", SESSION)
PREFIX = f"/s/ml/raycluster/v170/{SESSION}"
HEAD = "a" * 56
WORKER_NODE = "b" * 56
WORKER = "c" * 56
START_MS = 1_796_075_170_843


class HandMade:
    """Collects rows and logs, then makes a compiled session of them."""

    def __init__(self, folder: Path, backend: Backend, ref: SessionRef = REF) -> None:
        self.ref = ref
        self.backend = backend
        self._path = folder / f"{ref.session}.sqlite"
        self._writer = CompiledWriter(self._path)
        self._strings: dict[str, int] = {}
        self._tasks: list[list[object]] = []
        self._details: list[bytes] = []
        self._actors: list[ActorRecord] = []
        self._nodes = [
            NodeRecord(node_id=HEAD, ip_address="10.0.0.1", is_head=True, state="DEAD"),
            NodeRecord(node_id=WORKER_NODE, ip_address="10.0.0.2", state="DEAD"),
        ]
        self._logs: list[tuple[str, str, int, bytes]] = []
        self._events: list[tuple[str, str, str, str, int, str]] = []
        self._snapshots: list[tuple[str, str, int, bytes]] = []

    def log(self, path: str, data: bytes | Iterable[bytes], *, node: str = HEAD) -> HandMade:
        """Store a log file."""
        key = f"cluster-history/raycluster/ml/v170/{self.ref.session}/{node}/logs/{path}"
        size_bytes = self.backend.put(key, data).size_bytes
        return self.log_parts(path, [LogPart(key, 0, size_bytes)], size_bytes, node=node)

    def log_parts(
        self, path: str, parts: list[LogPart], size_bytes: int, *, node: str = HEAD
    ) -> HandMade:
        """Tell of a log file whose parts are stored elsewhere."""
        self._logs.append((node, path, size_bytes, msgspec.msgpack.encode(parts)))
        return self

    def task(
        self,
        task_id: str,
        *,
        attempt: int = 0,
        log_info: LogInfo | None = None,
        worker: str = WORKER,
        node: str = HEAD,
    ) -> HandMade:
        """Add a finished task attempt."""
        values: dict[str, object] = dict.fromkeys(TASK_COLUMNS)
        values |= {
            "task_id": bytes.fromhex(task_id),
            "attempt": attempt,
            "state": self._string("FINISHED"),
            "node": self._string(node) if node else None,
            "worker": self._string(worker) if worker else None,
            "detail": detail_number(len(self._tasks), 0),
        }
        self._tasks.append([0, *(values[name] for name in TASK_COLUMNS)])
        detail = msgspec.msgpack.encode(TaskDetail(log_info=log_info))
        self._details.append(DetailPacker().pack([detail]))
        return self

    def actor(self, actor_id: str, *, worker: str = WORKER, node: str = HEAD) -> HandMade:
        """Add an actor."""
        self._actors.append(ActorRecord(actor_id=actor_id, worker_id=worker, node_id=node))
        return self

    def event(self, line: Mapping[str, object], *, job_id: str = "") -> HandMade:
        """Add a cluster event as Ray wrote it."""
        number = len(self._events)
        body = msgspec.json.encode(line).decode()
        self._events.append((f"e{number}", job_id, "GCS", "INFO", START_MS + number, body))
        return self

    def snapshot(self, name: str, body: object) -> HandMade:
        """Add a stored answer of the live dashboard."""
        data = zstandard.ZstdCompressor().compress(msgspec.json.encode(body))
        self._snapshots.append((name, "", START_MS, data))
        return self

    def compiled(self, **facts: object) -> CompiledSession:
        """Write the file and open it."""
        writer = self._writer
        writer.add_strings((number, value) for value, number in self._strings.items())
        writer.add_tasks(self._tasks)
        writer.add_details(enumerate(self._details))
        writer.add_actors(self._actors)
        writer.add_nodes(self._nodes)
        writer.add_log_files(self._logs)
        writer.add_cluster_events(self._events)
        writer.add_snapshots(self._snapshots)
        writer.index()
        known: dict[str, object] = {
            "schema_version": SCHEMA_VERSION,
            "fingerprint": "f1",
            "namespace": self.ref.namespace,
            "cluster": self.ref.cluster,
            "session": self.ref.session,
            "state": "ended",
            "start_ms": START_MS,
            "end_ms": START_MS + 60_000,
            "ray_version": "2.55.1",
        }
        writer.finish(msgspec.convert(known | facts, Meta))
        return open_compiled(self._path)

    def opened(self, **facts: object) -> OpenSession:
        """As a route gets it."""
        compiled = self.compiled(**facts)
        return OpenSession(
            ref=self.ref, compiled=compiled, backend=self.backend, etag_base=compiled.fingerprint
        )

    def _string(self, value: str) -> int:
        return self._strings.setdefault(value, len(self._strings) + 1)


class FixedCatalogue(Catalogue):
    """A catalogue of given entries."""

    def __init__(self, backend: Backend, entries: list[SessionEntry]) -> None:
        super().__init__(backend)
        self.entries = entries

    def sessions(self) -> list[SessionEntry]:
        """The given ones."""
        return list(self.entries)

    def find(self, namespace: str, kind: str, name: str, session: str) -> SessionEntry | None:
        """As the real one finds."""
        found = self._of(namespace, kind, name)
        return next((entry for entry in found if entry.ref.session == session), None)

    def latest(self, namespace: str, kind: str, name: str) -> SessionEntry | None:
        """As the real one finds."""
        return next(iter(self._of(namespace, kind, name)), None)

    def running(self, namespace: str, kind: str, name: str) -> SessionEntry | None:
        """As the real one finds."""
        found = self._of(namespace, kind, name)
        return next((entry for entry in found if entry.state is SessionState.RUNNING), None)

    def _of(self, *place: str) -> list[SessionEntry]:
        return [entry for entry in self.entries if place in entry.answers_to()]


class FixedPreparer:
    """Prepares nothing: the sessions are given."""

    def __init__(self, *opened: OpenSession) -> None:
        self.opened = {one.ref: one for one in opened}
        self.calls = 0

    def prepare(self, ref: SessionRef, known: CompiledSession | None) -> Prepared:
        """Given before."""
        del known
        self.calls += 1
        return Prepared(self.opened[ref], 0.0)

    def distrust(self, compiled: CompiledSession) -> bool:
        """Nothing can be made anew."""
        del compiled
        return False

    def close(self) -> None:
        """Nothing runs."""


def sessions_with(preparer: Preparer) -> Sessions:
    """Sessions of this preparer, counted by nobody."""
    return Sessions(preparer, watch=Unwatched())


def opened_sessions(*opened: OpenSession) -> Sessions:
    """Sessions that are open already."""
    sessions = sessions_with(FixedPreparer(*opened))
    for one in opened:
        sessions.open(one.ref)
    return sessions


LIMITS = CompileLimits(cache_bytes=20 << 30, workers=2, timeout_s=60.0)


def stored_sessions(
    backend: Backend,
    cache_dir: Path,
    *,
    watch: SessionWatch | None = None,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> Sessions:
    """Sessions of a store, as the server opens them."""
    watched = watch or Unwatched()
    preparer = SessionPreparer(
        backend, cache_dir, limits=LIMITS, watch=watched, monotonic_s=monotonic_s
    )
    return Sessions(preparer, watch=watched, monotonic_s=monotonic_s)


def entry_of(ref: SessionRef = REF, **changes: object) -> SessionEntry:
    """An ended session of one minute."""
    known: dict[str, object] = {
        "ref": ref,
        "state": SessionState.ENDED,
        "reason": StateReason.END_MARKER,
        "start_ms": START_MS,
        "end_ms": START_MS + 60_000,
        "size_bytes": 1_500_000,
    }
    return SessionEntry(**(known | changes))  # type: ignore[arg-type]


def app_of(
    backend: Backend,
    *opened: OpenSession,
    entries: list[SessionEntry] | None = None,
    ui: Path | None = None,
    policy: Policy | None = None,
    sessions: Sessions | None = None,
    open_timeout_s: float = 20.0,
    metrics: ServerMetrics | None = None,
) -> WebApp:
    """The whole web app over given sessions."""
    return create_app(
        AppParts(
            catalogue=FixedCatalogue(
                backend, entries if entries is not None else [entry_of(one.ref) for one in opened]
            ),
            sessions=sessions or opened_sessions(*opened),
            files=DashboardFiles(ui or Path("/nonexistent")),
            policy=policy or OpenPolicy(),
            answer_cache_bytes=32 << 20,
            open_timeout_s=open_timeout_s,
            max_waiting=12,
            metrics=metrics or ServerMetrics(),
        )
    )
