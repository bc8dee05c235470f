"""What a starting collector must learn from storage before it may write there."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from collector.shipping.final_objects import frame_chunks
from collector.shipping.manifest import HotEvents, ManifestBook, ShippingState, StoredLog
from collector.tails import FrameError, LogTails, TailState
from collector.tails.files import HEAD_BYTES
from collector.tails.tailed import mark_of_content
from storage.backend import Backend, IntegrityError, NotFoundError, ObjectInfo, read_all
from storage.layout import (
    SessionRef,
    hot_prefix,
    manifest_key,
    parse_hot_segment_key,
)
from storage.wire import LogEntry, NodeManifest, WireError, decode_manifest

MANIFEST_MAX_BYTES = 256 * 1024 * 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """What storage has of this node."""

    segments: dict[int, int] = field(default_factory=dict)
    """Size of each live segment there is, named by a manifest or not."""
    state: ShippingState | None = None
    """The state that the stored manifest tells of; only looked for when the local one is lost."""


def look(backend: Backend, ref: SessionRef, node_id: str, *, want_state: bool) -> Found:
    """List the node's live segments and, if wanted, read its manifest.

    Args:
        backend: where.
        ref: which session.
        node_id: which node.
        want_state: there is no local state, so that the stored manifest is all we know.

    """
    segments: dict[int, int] = {}
    for info in backend.list(hot_prefix(ref, node_id)):
        if isinstance(info, ObjectInfo):
            parsed = parse_hot_segment_key(info.key)
            if parsed is not None:
                segments[parsed.seq] = info.size_bytes
    if not want_state:
        return Found(segments)
    manifest = _stored_manifest(backend, manifest_key(ref, node_id))
    state = None if manifest is None else _state(backend, ref, manifest, segments)
    return Found(segments, state)


def take_over(found: Found, *, book: ManifestBook, tails: LogTails) -> None:
    """Go on from what storage has; before this, nothing may be stored under a number.

    Args:
        found: what `look` found.
        book: gets the stored manifest, if the local state was lost, and the segments.
        tails: continue the logs that they recognise.

    """
    if found.state is not None:
        book.adopt(found.state)
        tails.adopt(found.state.tails)
    state = book.state
    # Segments that the state does not know were stored just before a kill: not needed.
    for seq, size_bytes in found.segments.items():
        state.segments.setdefault(seq, size_bytes)
    state.next_seq = max([state.next_seq, *(seq + 1 for seq in state.segments)])


def _stored_manifest(backend: Backend, key: str) -> NodeManifest | None:
    try:
        return decode_manifest(read_all(backend, key, max_bytes=MANIFEST_MAX_BYTES), source=key)
    except NotFoundError:
        return None
    except (WireError, IntegrityError) as error:
        _log.warning("stored manifest not usable, begun anew", extra={"error": str(error)})
        return None


def _state(
    backend: Backend, ref: SessionRef, manifest: NodeManifest, segments: dict[int, int]
) -> ShippingState:
    state = ShippingState(
        session=manifest.session,
        node_id=manifest.node_id,
        hot_events=[HotEvents(frame=frame, segment="") for frame in manifest.hot_events],
        event_files=manifest.events.event_files,
        totals=manifest.events,
        log_dropped=manifest.log_dropped,
    )
    for number, entry in enumerate(manifest.logs):
        incarnation = f"stored-{number}"
        log = StoredLog(frames=entry.frames, key=entry.key)
        log.key_bytes = entry.size_bytes if entry.key is not None else 0
        state.logs[incarnation] = log
        offset = log.stored_bytes
        state.tails.append(
            TailState(
                incarnation=incarnation,
                device=0,
                inode=0,
                path=entry.path,
                offset=offset,
                size_bytes=max(offset, entry.size_bytes),
                mark=_mark(backend, ref, manifest.node_id, entry, offset),
                gone=True,
            )
        )
    state.segments = dict(segments)
    return state


def _mark(backend: Backend, ref: SessionRef, node_id: str, entry: LogEntry, offset: int) -> str:
    """The mark of a stored log, to recognise the local file by; "" when it cannot be read."""
    length = min(HEAD_BYTES, offset)
    try:
        if entry.key is not None:
            head = _joined(backend.get_range(entry.key, 0, length))
            last = _joined(backend.get_range(entry.key, offset - length, length))
        else:
            head, last = b"", b""
            for frame in entry.frames:
                if len(head) >= length:
                    break
                head += _joined(frame_chunks(backend, ref, node_id, [frame]))
            for frame in reversed(entry.frames):
                if len(last) >= length:
                    break
                last = _joined(frame_chunks(backend, ref, node_id, [frame])) + last
    except (NotFoundError, FrameError):
        return ""
    return mark_of_content(head, last, offset)


def _joined(chunks: Iterable[bytes]) -> bytes:
    return b"".join(chunks)
