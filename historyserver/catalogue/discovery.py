"""Finds the sessions in storage by their keys alone.

Three sources: entries of our catalogue, KubeRay's markers (both one object a session), and the
folders of the data trees, for sessions whose collector was killed before it wrote either.
Folders are listed with a delimiter, so no session's content is walked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from historyserver.catalogue.entry import SessionId, session_id
from storage.backend import Backend, CommonPrefix, ObjectInfo
from storage.layout import (
    CATALOGUE_PREFIX,
    DATA_ROOT,
    LEGACY_MARKER_ROOT,
    MARKER_ROOT,
    SESSIONS_PREFIX,
    Generation,
    SessionRef,
    is_session_name,
    parse_catalogue_key,
    parse_data_session,
    parse_marker_key,
    parse_session_json_key,
)

log = logging.getLogger(__name__)

MAX_TOP_LEVEL = 10_000
"""How many names at the top of a bucket are looked at for folders of generation A."""


class SkipReason(StrEnum):
    """Why a key, or what it tells, does not appear in the list."""

    BAD_MARKER = "bad_marker"
    """A key in a marker tree that names no session."""
    BAD_CATALOGUE_KEY = "bad_catalogue_key"
    BAD_CATALOGUE_ENTRY = "bad_catalogue_entry"
    """The entry is no document of a schema known here; the session is listed without it."""
    BAD_OWNER = "bad_owner"
    """No owner can be called as the session's documents say; it is listed without one."""
    TOO_MANY_NAMES = "too_many_names"
    """The top of the bucket has more than `MAX_TOP_LEVEL` names."""


class Skips:
    """The keys that were passed over, each once however often it is met."""

    def __init__(self) -> None:
        self._keys: dict[SkipReason, set[str]] = {}

    def add(self, reason: SkipReason, key: str) -> None:
        """Note one, and log it when it is new."""
        keys = self._keys.setdefault(reason, set())
        if key not in keys:
            keys.add(key)
            log.warning(
                "a key is not listed, or not all of it", extra={"key": key, "reason": reason.value}
            )

    def counts(self) -> dict[str, int]:
        """How many keys by reason, for metrics."""
        return {reason.value: len(keys) for reason, keys in self._keys.items()}


@dataclass(slots=True)
class Found:
    """All signs of one session."""

    ref: SessionRef
    root: str
    generation: Generation
    marker_ms: int = 0
    """When KubeRay's marker was written; 0 when there is none."""
    entry: ObjectInfo | None = None
    """The catalogue's entry."""

    def adds_to(self, known: Found | None) -> bool:
        """Whether this sign tells something that the known ones do not; spares memory."""
        if known is None:
            return True
        order = list(Generation)
        is_newer = order.index(self.generation) > order.index(known.generation)
        return is_newer or bool(self.ref.owner_kind and not known.ref.owner_kind)

    def join(self, other: Found) -> None:
        """Add another sign of the same session. An owner and our own tree tell the most."""
        order = list(Generation)
        if other.ref.owner_kind and not self.ref.owner_kind:
            self.ref = other.ref
        if order.index(other.generation) > order.index(self.generation):
            self.generation, self.root = other.generation, other.root
        self.marker_ms = max(self.marker_ms, other.marker_ms)
        self.entry = self.entry or other.entry


def collect(found: Iterable[Found]) -> dict[SessionId, Found]:
    """One `Found` a session, of all its signs."""
    sessions: dict[SessionId, Found] = {}
    for sign in found:
        known = sessions.setdefault(session_id(sign.ref), sign)
        if known is not sign:
            known.join(sign)
    return sessions


def marked(backend: Backend, root: str, skips: Skips) -> Iterator[Found]:
    """Sessions with a catalogue entry or a marker."""
    for info in _objects(backend, root + CATALOGUE_PREFIX):
        entry = parse_catalogue_key(info.key.removeprefix(root))
        if entry is None:
            skips.add(SkipReason.BAD_CATALOGUE_KEY, info.key)
        else:
            yield Found(entry.session, root, Generation.OURS, entry=info)
    for tree in (LEGACY_MARKER_ROOT, MARKER_ROOT):
        for info in _objects(backend, root + tree):
            marker = parse_marker_key(info.key.removeprefix(root))
            if marker is None:
                skips.add(SkipReason.BAD_MARKER, info.key)
            else:
                generation = Generation.A if marker.legacy else Generation.C
                yield Found(marker.session, root, generation, marker_ms=info.modified_ms)


def with_data(backend: Backend, root: str, pool: Executor, skips: Skips) -> Iterator[Found]:
    """Sessions with a folder in a data tree, marked or not."""
    for folder in _session_folders(backend, root + DATA_ROOT, pool, max_depth=5):
        data = parse_data_session(folder.removeprefix(root))
        if data is not None:
            yield Found(data[0], root, Generation.C)
    for folder in _session_folders(backend, root + SESSIONS_PREFIX, pool, max_depth=3):
        ref = parse_session_json_key(folder.removeprefix(root) + "session.json")
        if ref is not None:
            yield Found(ref, root, Generation.OURS)
    for folder in _legacy_folders(backend, root, pool, skips):
        data = parse_data_session(folder.removeprefix(root))
        if data is not None and data[1]:
            yield Found(data[0], root, Generation.A)


def _session_folders(
    backend: Backend, prefix: str, pool: Executor, *, max_depth: int
) -> Iterator[str]:
    """Go down level by level, as many folders at once as the pool has threads."""
    level = [prefix]
    for _ in range(max_depth):
        below = [folder for found in pool.map(_folders(backend), level) for folder in found]
        level = []
        for folder in below:
            if is_session_name(_last_part(folder)):
                yield folder
            else:
                level.append(folder)


def _legacy_folders(backend: Backend, root: str, pool: Executor, skips: Skips) -> Iterator[str]:
    top = list(islice(backend.list(root, delimiter="/"), MAX_TOP_LEVEL + 1))
    if len(top) > MAX_TOP_LEVEL:
        skips.add(SkipReason.TOO_MANY_NAMES, root or "/")
    joined = [
        item.prefix
        for item in top
        if isinstance(item, CommonPrefix) and "_" in _last_part(item.prefix)
    ]
    for found in pool.map(_folders(backend), joined):
        yield from (folder for folder in found if is_session_name(_last_part(folder)))


def _folders(backend: Backend) -> Callable[[str], list[str]]:
    def below(prefix: str) -> list[str]:
        items = backend.list(prefix, delimiter="/")
        return [item.prefix for item in items if isinstance(item, CommonPrefix)]

    return below


def _objects(backend: Backend, prefix: str) -> Iterator[ObjectInfo]:
    for info in backend.list(prefix):
        if isinstance(info, ObjectInfo) and not info.key.endswith("/"):
            yield info


def _last_part(folder: str) -> str:
    return folder.rstrip("/").rpartition("/")[2]
