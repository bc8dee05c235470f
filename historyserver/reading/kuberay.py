"""Sessions that KubeRay's collectors wrote, generations A, B, C- and C.

They differ in keys, which `storage.layout` parses, and in the framing of event files, which
`events` tells by the first bytes. So one reader serves all four; the newest key that is met
names the generation of the session.
"""

from __future__ import annotations

from collections.abc import Collection

from historyserver.reading.damage import DamageLog, DamageReason
from historyserver.reading.listing import Listing
from historyserver.reading.source import EventFile, LogPart, SnapshotFile
from storage.backend import Backend, NotFoundError, ObjectInfo
from storage.layout import (
    Generation,
    SessionRef,
    kuberay_session_prefix,
    legacy_marker_key,
    legacy_session_prefix,
    marker_key,
    parse_endpoint_key,
    parse_event_key,
    parse_log_key,
)


def list_kuberay(backend: Backend, ref: SessionRef, *, root: str, damage: DamageLog) -> Listing:
    """What lies in the trees of A and B and of C- and C below this root."""
    listing = Listing()
    for prefix in data_prefixes(ref):
        for info in backend.list(root + prefix):
            if isinstance(info, ObjectInfo) and not info.key.endswith("/"):
                _add(listing, info, root=root, damage=damage)
    return listing


def data_prefixes(ref: SessionRef) -> list[str]:
    """Where KubeRay's collectors may have put the session: with and without its owner, old tree."""
    bare = SessionRef(ref.namespace, ref.cluster, ref.session)
    prefixes = [legacy_session_prefix(ref)]
    if "_" not in ref.namespace:
        prefixes += dict.fromkeys((kuberay_session_prefix(ref), kuberay_session_prefix(bare)))
    return prefixes


def markers(backend: Backend, ref: SessionRef, *, root: str) -> dict[Generation, int]:
    """When each of the session's markers was written: A for the old tree's, C for the later."""
    bare = SessionRef(ref.namespace, ref.cluster, ref.session)
    keys = {legacy_marker_key(ref): Generation.A}
    if "_" not in ref.namespace:
        keys |= {marker_key(ref): Generation.C, marker_key(bare): Generation.C}
    found: dict[Generation, int] = {}
    for key, generation in keys.items():
        try:
            modified_ms = backend.head(root + key).modified_ms
        except NotFoundError:
            continue
        found[generation] = max(modified_ms, found.get(generation, 0))
    return found


def generation_of(listing: Listing, found: Collection[Generation]) -> Generation:
    """Name the generation, given what was listed and the markers.

    B of its first weeks has the uncompressed files of A and the marker of C.
    """
    data = listing.generation or listing.tree
    if data is None:
        return Generation.A if set(found) == {Generation.A} else Generation.C
    if data is Generation.A and set(found) == {Generation.C}:
        return Generation.B
    return data


def _add(listing: Listing, info: ObjectInfo, *, root: str, damage: DamageLog) -> None:
    key = info.key.removeprefix(root)
    if (event := parse_event_key(key)) is not None:
        framing = "gzip" if event.gzip else "plain"
        listing.events[info.key] = EventFile(
            info.key, event.node_id, info.size_bytes, info.etag, framing
        )
        listing.met(event.generation)
    elif (log := parse_log_key(key)) is not None:
        listing.add_log(log.node_id, log.path, LogPart(info.key, 0, info.size_bytes))
        listing.log_sizes[log.node_id, log.path] = info.size_bytes
        listing.tree = Generation.A if log.legacy else Generation.C
    elif (endpoint := parse_endpoint_key(key)) is not None:
        listing.snapshots[endpoint.name] = SnapshotFile(
            endpoint.name, info.key, "plain", info.modified_ms
        )
        listing.tree = Generation.A if endpoint.legacy else Generation.C
    else:
        damage.add(DamageReason.UNKNOWN_KEY, info.key, info.size_bytes)
        return
    listing.mark(info)
