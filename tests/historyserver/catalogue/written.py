"""What the tests of the list write to storage, and how they tell a session's state."""

from __future__ import annotations

from collections.abc import Callable

from historyserver.catalogue import Catalogue, SessionEntry
from storage.backend import Backend
from storage.layout import (
    SessionRef,
    catalogue_key,
    kuberay_session_prefix,
    session_started_ms,
)
from storage.local import LocalBackend
from storage.wire import CatalogueEntry, encode_catalogue_entry

CatalogueOf = Callable[[Backend], Catalogue]
NODE = "c" * 56


def ref_of(number: int, cluster: str = "rl", namespace: str = "ml") -> SessionRef:
    """Sessions one second apart, the higher the newer."""
    return SessionRef(
        namespace,
        cluster,
        f"session_2026-11-{1 + number // 60:02d}_10-00-{number % 60:02d}_000001_7",
    )


def put_entry(
    store: LocalBackend, ref: SessionRef, *, ended_ms: int = 0, state: str = "", size_bytes: int = 0
) -> None:
    entry = CatalogueEntry(
        namespace=ref.namespace,
        cluster=ref.cluster,
        owner_kind=ref.owner_kind,
        owner_name=ref.owner_name,
        session=ref.session,
        started_ms=session_started_ms(ref.session),
        ended_ms=ended_ms,
        state=state or ("ended" if ended_ms else "running"),
        size_bytes=size_bytes,
        nodes=2,
        jobs=3,
    )
    store.put(catalogue_key(ref), encode_catalogue_entry(entry))


def put_events(store: LocalBackend, ref: SessionRef) -> None:
    key = f"{kuberay_session_prefix(ref)}{NODE}/node_events/{NODE}-2026-11-30-21-1.jsonl"
    store.put(key, b"")


def told(entry: SessionEntry) -> tuple[str, str]:
    return entry.state.value, entry.reason.value
