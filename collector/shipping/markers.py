"""What tells readers that a session exists, and how it ended.

At start: KubeRay's empty marker, our `session.json` (the first collector wins) and an entry
in the catalogue. At the end, by the head's collector: `end.json`, the marker again and the
entry rewritten. Written at start already, so that a session whose node is lost is listed too.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from storage import layout
from storage.backend import (
    Backend,
    ExistsError,
    IntegrityError,
    NotFoundError,
    ObjectInfo,
    read_all,
)
from storage.wire import (
    CatalogueEntry,
    SessionEnd,
    SessionStart,
    WireError,
    decode_session_end,
    encode_catalogue_entry,
    encode_session_end,
    encode_session_start,
)

log = logging.getLogger(__name__)

MAX_LISTED = 200_000
"""Objects of a session counted at most for the catalogue; its size is then a lower bound."""

MAX_END_BYTES = 64 * 1024


class SessionEndReason(Enum):
    """How a session ended, as `end.json` says it."""

    DRAINED = "drained"
    """The collector was told to stop: the pod is going."""
    RAY_GONE = "ray_gone"
    """The raylet was gone for some time while the collector ran on."""
    SESSION_CHANGED = "session_changed"
    """Another session took its place: Ray restarted in the same pod."""

    @property
    def wire(self) -> Literal["drained", "ray_gone", "session_changed"]:
        """As the wire type wants it."""
        match self:
            case SessionEndReason.DRAINED:
                return "drained"
            case SessionEndReason.RAY_GONE:
                return "ray_gone"
            case SessionEndReason.SESSION_CHANGED:
                return "session_changed"


@dataclass(frozen=True, slots=True)
class Stored:
    """What storage has of a session, roughly: other nodes may still be at it."""

    size_bytes: int
    nodes: int
    jobs: int


def stored(backend: Backend, ref: layout.SessionRef) -> Stored:
    """Count what is stored of a session, by its keys."""
    size_bytes = 0
    nodes: set[str] = set()
    jobs: set[str] = set()
    listed = 0
    for prefix in (layout.kuberay_session_prefix(ref), layout.session_prefix(ref)):
        for info in backend.list(prefix):
            listed += 1
            if listed > MAX_LISTED:
                log.warning(
                    "session has too many objects to count, its size is a lower bound",
                    extra={"session": ref.session, "objects": MAX_LISTED},
                )
                return Stored(size_bytes, len(nodes), len(jobs))
            if isinstance(info, ObjectInfo):
                size_bytes += info.size_bytes
                _note(info.key, nodes, jobs)
    return Stored(size_bytes, len(nodes), len(jobs))


def _note(key: str, nodes: set[str], jobs: set[str]) -> None:
    event = layout.parse_event_key(key)
    if event is not None:
        nodes.add(event.node_id)
        if event.job_id:
            jobs.add(event.job_id)
        return
    manifest = layout.parse_manifest_key(key)
    if manifest is not None:
        nodes.add(manifest.node_id)


class SessionMarkers:
    """Writes the markers of one session. Blocking; each method may be called again.

    Args:
        backend: where.
        ref: which session.
        node_id: of this collector's node.
        is_head: only the head's collector rewrites the catalogue and ends the session.
        version: of this collector.

    """

    def __init__(
        self,
        backend: Backend,
        ref: layout.SessionRef,
        *,
        node_id: str,
        is_head: bool,
        version: str,
    ) -> None:
        self._backend = backend
        self._ref = ref
        self._node_id = node_id
        self._is_head = is_head
        self._version = version

    def write_start(self) -> None:
        """Say that the session exists and runs."""
        self.ensure_start()
        if not self._is_head:
            return
        self._backend.delete(layout.end_key(self._ref))
        entry = self._entry(ended_ms=0, facts=Stored(0, 0, 0))
        self._backend.put(layout.catalogue_key(self._ref), encode_catalogue_entry(entry))

    def ensure_start(self) -> None:
        """Say that the session exists, and leave alone what others said of it."""
        ref = self._ref
        self._backend.put(layout.marker_key(ref), b"")
        start = SessionStart(
            namespace=ref.namespace,
            cluster=ref.cluster,
            owner_kind=ref.owner_kind,
            owner_name=ref.owner_name,
            session=ref.session,
            started_ms=layout.session_started_ms(ref.session),
            collector_version=self._version,
            node_id=self._node_id,
            role="head" if self._is_head else "worker",
        )
        entry = self._entry(ended_ms=0, facts=Stored(0, 0, 0))
        for key, data in (
            (layout.session_json_key(ref), encode_session_start(start)),
            (layout.catalogue_key(ref), encode_catalogue_entry(entry)),
        ):
            with contextlib.suppress(ExistsError):
                self._backend.put(key, data, create_only=True)

    def write_end(self, reason: SessionEndReason, ended_ms: int, *, keep: bool = False) -> None:
        """Say that the session is over, since `ended_ms`; does nothing on a worker.

        Args:
            reason: how it ended.
            ended_ms: when.
            keep: an end that was told already stands; only the catalogue's sums are new.

        """
        if not self._is_head:
            return
        end = self._stored_end() if keep else None
        if end is None:
            end = SessionEnd(
                ended_ms=ended_ms,
                reason=reason.wire,
                node_id=self._node_id,
                collector_version=self._version,
            )
            self._backend.put(layout.end_key(self._ref), encode_session_end(end))
        self._backend.put(layout.marker_key(self._ref), b"")
        facts = stored(self._backend, self._ref)
        entry = self._entry(ended_ms=end.ended_ms, facts=facts)
        self._backend.put(layout.catalogue_key(self._ref), encode_catalogue_entry(entry))

    def _stored_end(self) -> SessionEnd | None:
        key = layout.end_key(self._ref)
        try:
            return decode_session_end(read_all(self._backend, key, max_bytes=MAX_END_BYTES))
        except NotFoundError:
            return None
        except (IntegrityError, WireError) as error:
            log.warning("end marker damaged, written anew", extra={"key": key, "error": str(error)})
            return None

    def _entry(self, *, ended_ms: int, facts: Stored) -> CatalogueEntry:
        ref = self._ref
        return CatalogueEntry(
            namespace=ref.namespace,
            cluster=ref.cluster,
            owner_kind=ref.owner_kind,
            owner_name=ref.owner_name,
            session=ref.session,
            started_ms=layout.session_started_ms(ref.session),
            ended_ms=ended_ms,
            state="ended" if ended_ms else "running",
            size_bytes=facts.size_bytes,
            nodes=facts.nodes,
            jobs=facts.jobs,
        )
