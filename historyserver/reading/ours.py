"""Our own tree: who the session is, manifests, live segments, snapshots, how it ended."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field

import msgspec

from historyserver.reading.damage import DamageLog, DamageReason
from historyserver.reading.listing import Listing
from historyserver.reading.plausible import (
    check_end,
    check_manifest,
    check_start,
    is_event_frame,
    is_log,
)
from historyserver.reading.source import EventFile, LogPart, NodeReport, SnapshotFile
from historyserver.reading.state import FRESH_MS, Verdict, our_verdict
from storage.backend import (
    Backend,
    IntegrityError,
    NotFoundError,
    ObjectInfo,
    read_all,
)
from storage.layout import (
    Generation,
    SessionRef,
    compiled_prefix,
    end_key,
    hot_segment_key,
    parse_hot_segment_key,
    parse_log_key,
    parse_manifest_key,
    parse_snapshot_key,
    session_json_key,
    session_prefix,
)
from storage.wire import (
    LogEntry,
    NodeManifest,
    SessionEnd,
    SessionStart,
    WireError,
    decode_manifest,
    decode_session_end,
    decode_session_start,
    encode_manifest,
)

log = logging.getLogger(__name__)

MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
"""Of one manifest: one that names a million frames of logs stays below."""

_Segments = dict[tuple[str, int], ObjectInfo]


@dataclass(slots=True)
class OurTree:
    """What our tree holds of a session."""

    listing: Listing = field(default_factory=Listing)
    start: SessionStart | None = None
    end: SessionEnd | None = None
    manifests: list[NodeManifest] = field(default_factory=list)
    newest_running_ms: int = 0
    """The last sign of life of a collector that has not ended, by the store's clock."""

    @property
    def found(self) -> bool:
        """Whether our collector was here at all; compiled files alone do not count."""
        return bool(self.start or self.end or self.manifests or self.listing.marks)

    @property
    def last_seen_ms(self) -> int:
        """The last sign of life that a collector put down itself."""
        times = [manifest.updated_ms for manifest in self.manifests]
        return max([*times, self.end.ended_ms if self.end else 0])

    def verdict(self, *, now_ms: int, fresh_ms: int = FRESH_MS) -> Verdict:
        """What became of the session."""
        heads = [m for m in self.manifests if m.role.lower() == "head"]
        return our_verdict(
            has_end=self.end is not None,
            head_ended=bool(heads) and all(m.state == "ended" for m in heads),
            newest_running_ms=self.newest_running_ms,
            now_ms=now_ms,
            fresh_ms=fresh_ms,
        )


def list_ours(backend: Backend, ref: SessionRef, *, root: str, damage: DamageLog) -> OurTree:
    """Read our tree of the session below this root; manifests are read, nothing larger is.

    The listing comes first and the manifests after it: a manifest only names what is stored
    already, so what it names counts, also when the listing did not show it yet.
    """
    tree = OurTree()
    segments: _Segments = {}
    manifests: list[tuple[str, ObjectInfo]] = []
    for info in backend.list(root + session_prefix(ref)):
        if not isinstance(info, ObjectInfo) or info.key.endswith("/"):
            continue
        key = info.key.removeprefix(root)
        if key.startswith(compiled_prefix(ref)):
            continue
        if (segment := parse_hot_segment_key(key)) is not None:
            segments[segment.node_id, segment.seq] = info
        elif (manifest := parse_manifest_key(key)) is not None:
            manifests.append((manifest.node_id, info))
        else:
            _add_document(backend, tree, info, ref, root=root, damage=damage)
    for node_id, info in manifests:
        _add_manifest(backend, tree, info, ref, node_id, root=root, damage=damage)
    _add_unnamed_segments(tree, segments)
    if tree.found:
        tree.listing.met(Generation.OURS)
    return tree


def _add_document(
    backend: Backend,
    tree: OurTree,
    info: ObjectInfo,
    ref: SessionRef,
    *,
    root: str,
    damage: DamageLog,
) -> None:
    key = info.key.removeprefix(root)
    if key == session_json_key(ref):
        data = _read(backend, info, damage, DamageReason.BAD_SESSION_START)
        try:
            start = decode_session_start(data, source=info.key) if data else None
            if start is not None:
                check_start(start)
            tree.start = start
        except WireError:
            damage.add(DamageReason.BAD_SESSION_START, info.key, info.size_bytes)
        tree.newest_running_ms = max(tree.newest_running_ms, info.modified_ms)
    elif key == end_key(ref):
        data = _read(backend, info, damage, DamageReason.BAD_SESSION_END)
        try:
            end = decode_session_end(data, source=info.key) if data else None
            if end is not None:
                check_end(end)
            tree.end = end
        except WireError:
            damage.add(DamageReason.BAD_SESSION_END, info.key, info.size_bytes)
    elif (snapshot := parse_snapshot_key(key)) is not None:
        tree.listing.snapshots[snapshot.name] = SnapshotFile(
            snapshot.name, info.key, "envelope", info.modified_ms
        )
    else:
        damage.add(DamageReason.UNKNOWN_KEY, info.key, info.size_bytes)
        return
    tree.listing.mark(info)


def _add_manifest(
    backend: Backend,
    tree: OurTree,
    info: ObjectInfo,
    ref: SessionRef,
    node_id: str,
    *,
    root: str,
    damage: DamageLog,
) -> None:
    data = _read(backend, info, damage, DamageReason.BAD_MANIFEST)
    try:
        manifest = decode_manifest(data, source=info.key) if data else None
        if manifest is not None:
            check_manifest(manifest)
    except WireError:
        damage.add(DamageReason.BAD_MANIFEST, info.key, info.size_bytes)
        manifest = None
    if manifest is None:
        tree.listing.mark(info)
        return
    tree.manifests.append(manifest)
    tree.listing.newest_ms = max(tree.listing.newest_ms, info.modified_ms)
    # Renewed for its time alone it says nothing new: the compiled session stays valid.
    content = encode_manifest(msgspec.structs.replace(manifest, updated_ms=0))
    tree.listing.marks.append(f"{info.key}\0{hashlib.sha256(content).hexdigest()}")
    if manifest.state == "running":
        tree.newest_running_ms = max(tree.newest_running_ms, info.modified_ms)
    tree.listing.reports.append(_report(manifest, node_id))
    bad = _add_hot_events(tree.listing, manifest, ref, node_id, root=root)
    for entry in manifest.logs:
        if is_log(entry, ref, node_id) and _is_own(entry, ref, node_id):
            _add_log(tree.listing, entry, ref, node_id, root=root)
        else:
            bad += 1
    if bad:
        log.warning("impossible entries are left out", extra={"key": info.key, "entries": bad})
        damage.add(DamageReason.BAD_MANIFEST, info.key, 0)


def _add_hot_events(
    listing: Listing, manifest: NodeManifest, ref: SessionRef, node_id: str, *, root: str
) -> int:
    """Note the live event segments; returns how many frames cannot be."""
    by_seq: dict[int, list[tuple[int, int]]] = {}
    bad = 0
    for frame in manifest.hot_events:
        if not is_event_frame(frame, ref, node_id):
            bad += 1
            continue
        by_seq.setdefault(frame.seq, []).append((frame.object_start, frame.object_length))
    for seq, frames in by_seq.items():
        key = root + hot_segment_key(ref, node_id, seq)
        size_bytes = sum(length for _, length in frames)
        listing.events[key] = EventFile(key, node_id, size_bytes, "", "segment", tuple(frames))
    return bad


def _add_log(
    listing: Listing, entry: LogEntry, ref: SessionRef, node_id: str, *, root: str
) -> None:
    log_id = (node_id, entry.path)
    listing.log_sizes[log_id] = max(entry.size_bytes, listing.log_sizes.get(log_id, 0))
    if entry.key is not None:
        part = LogPart(root + entry.key, 0, _stored_bytes(entry))
        listing.add_log(node_id, entry.path, part)
        return
    for frame in entry.frames:
        part = LogPart(
            root + hot_segment_key(ref, node_id, frame.seq),
            frame.log_start,
            frame.log_length,
            "zstd",
            frame.object_start,
            frame.object_length,
        )
        listing.add_log(node_id, entry.path, part)


def _stored_bytes(entry: LogEntry) -> int:
    """How long the final object is: a gap at the log's end is counted in the size only."""
    end = entry.size_bytes
    for start, stop in sorted(entry.gaps, reverse=True):
        if start < end <= stop:
            end = start
    return end


def _is_own(entry: LogEntry, ref: SessionRef, node_id: str) -> bool:
    """Whoever may write one manifest must not be able to show objects that are not its node's."""
    if entry.key is None:
        return True
    named = parse_log_key(entry.key)
    if named is None or named.node_id != node_id:
        return False
    session = named.session
    own = (ref.namespace, ref.cluster, ref.session)
    return (session.namespace, session.cluster, session.session) == own


def _add_unnamed_segments(tree: OurTree, segments: _Segments) -> None:
    """A collector that was killed before its first manifest left segments only.

    Where there is a manifest, a segment that it does not name is either not finished or
    superseded, so it is left out, also from the fingerprint.
    """
    told = {manifest.node_id for manifest in tree.manifests}
    for (node_id, _), info in segments.items():
        if node_id not in told:
            tree.newest_running_ms = max(tree.newest_running_ms, info.modified_ms)
            tree.listing.events[info.key] = EventFile(
                info.key, node_id, info.size_bytes, info.etag, "segment"
            )
            tree.listing.mark(info)


def _report(manifest: NodeManifest, node_id: str) -> NodeReport:
    return NodeReport(
        node_id=node_id,
        dropped_events=manifest.events.dropped,
        quarantined_events=manifest.events.quarantined,
        log_gaps=sum(len(entry.gaps) for entry in manifest.logs)
        + sum(manifest.log_dropped.values()),
    )


def _read(
    backend: Backend, info: ObjectInfo, damage: DamageLog, reason: DamageReason
) -> bytes | None:
    try:
        return read_all(backend, info.key, max_bytes=MAX_DOCUMENT_BYTES)
    except NotFoundError:
        damage.add(DamageReason.OBJECT_GONE, info.key, info.size_bytes)
    except IntegrityError:
        damage.add(reason, info.key, info.size_bytes)
    return None
