"""The sessions known to storage, kept in memory and renewed when asked for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

from historyserver.catalogue.checking import Check, check_kuberay, check_ours
from historyserver.catalogue.discovery import (
    Found,
    SkipReason,
    Skips,
    collect,
    marked,
    with_data,
)
from historyserver.catalogue.entry import SessionEntry, SessionId
from historyserver.catalogue.watching import CatalogueWatch, RenewalOutcome, Unwatched
from historyserver.folding.session_state import SessionState
from historyserver.reading.listing import DEFAULT_ROOTS
from historyserver.reading.plausible import check_entry
from historyserver.reading.state import StateReason
from storage.backend import (
    Backend,
    IntegrityError,
    InvalidKeyError,
    NotFoundError,
    ObjectInfo,
    StorageError,
    read_all,
)
from storage.layout import Generation, SessionRef, catalogue_key, session_started_ms
from storage.wire import CatalogueEntry, WireError, decode_catalogue_entry

log = logging.getLogger(__name__)


CHECK_S = 1.0
"""How long one refresh looks closer at single sessions; newest first, the others next time."""

_REST_FACTOR = 10
"""Renewing takes at most a tenth of the time, however many sessions and however slow the store."""

_THREADS = 8
_CHECKS_AT_ONCE = 32
_MAX_ENTRY_BYTES = 1024 * 1024
_Names = dict[tuple[str, str, str], list[SessionEntry]]


class Catalogue:
    """The list of sessions, at most `ttl_s` old; safe to use from several threads.

    One thread at a time renews it while the others get the list as it was; only before the
    first list is there do they wait. When the store fails, the old list stays.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        roots: Sequence[str] = DEFAULT_ROOTS,
        ttl_s: float = 10.0,
        scan_s: float = 60.0,
        watch: CatalogueWatch | None = None,
        now_s: Callable[[], float] = time.time,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Look below each of `roots`; nothing is read before the first call.

        Args:
            backend: where sessions are stored.
            roots: see `reading.listing.DEFAULT_ROOTS`.
            ttl_s: how old the list may be. New markers and entries show after that time.
            scan_s: how old the scan of folders may be, which finds unmarked sessions.
            watch: counts the renewals.
            now_s: the time now, since the epoch.
            monotonic_s: a clock that never goes back.

        """
        self.skips = Skips()
        self._backend = backend
        self._roots = tuple(roots)
        self._watch = watch or Unwatched()
        self._ttl_s, self._scan_s = ttl_s, scan_s
        self._now_s, self._monotonic_s = now_s, monotonic_s
        self._refreshing = threading.Lock()
        self._renewed_at_s = self._scanned_at_s = self._not_before_s = float("-inf")
        self._renewals = 0
        self._rest_s = 0.0
        self._entries: list[SessionEntry] | None = None
        self._names: _Names = {}
        self._scanned: dict[SessionId, Found] = {}
        self._read: dict[SessionId, tuple[str, CatalogueEntry | None]] = {}
        self._checks: dict[SessionId, Check] = {}

    def sessions(self) -> list[SessionEntry]:
        """All sessions, newest first. Raises `StorageError` when there was never a list."""
        self._renew(max_age_s=self._ttl_s, max_scan_age_s=self._scan_s)
        return list(self._entries or ())

    def age_s(self) -> float:
        """How old the list is; infinite before the first. It is renewed only when asked for."""
        return self._monotonic_s() - self._renewed_at_s

    def find(self, namespace: str, kind: str, name: str, session: str) -> SessionEntry | None:
        """The session of this name, or None.

        Args:
            namespace: of the cluster. KubeRay's v1.6 stored its "cluster id" in its place,
                which is `default` unless it was set.
            kind: `raycluster`, `rayjob` or `rayservice`. A cluster that has an owner answers
                to its own name too.
            name: of the cluster or the owner.
            session: its name.

        Raises `StorageError`.

        """
        key = (namespace, kind.lower(), name)

        def named(entries: Sequence[SessionEntry]) -> SessionEntry | None:
            return next((entry for entry in entries if entry.ref.session == session), None)

        # A known session stays known: requests of an open page never wait for a renewal.
        return named(self._names.get(key, ())) or self._look_up(key, named)

    def latest(self, namespace: str, kind: str, name: str) -> SessionEntry | None:
        """The newest session of a cluster or owner. Raises `StorageError`."""
        key = (namespace, kind.lower(), name)
        return self._look_up(key, lambda entries: next(iter(entries), None))

    def running(self, namespace: str, kind: str, name: str) -> SessionEntry | None:
        """The newest session of a cluster or owner that runs. Raises `StorageError`."""

        def runs(entries: Sequence[SessionEntry]) -> SessionEntry | None:
            return next((one for one in entries if one.state is SessionState.RUNNING), None)

        return self._look_up((namespace, kind.lower(), name), runs)

    def _look_up(
        self,
        key: tuple[str, str, str],
        choose: Callable[[Sequence[SessionEntry]], SessionEntry | None],
    ) -> SessionEntry | None:
        self._renew(max_age_s=self._ttl_s, max_scan_age_s=self._scan_s)
        found = choose(self._names.get(key, ()))
        if found is None:
            # Perhaps it is newer than the list. A wrong name costs one scan in `ttl_s` at most.
            self._renew(max_age_s=self._ttl_s, max_scan_age_s=self._ttl_s)
            found = choose(self._names.get(key, ()))
        return found

    def _renew(self, *, max_age_s: float, max_scan_age_s: float) -> None:
        seen = self._renewals
        now_s = self._monotonic_s()
        wants_scan = now_s - self._scanned_at_s >= max_scan_age_s
        is_due = wants_scan or now_s - self._renewed_at_s >= max(max_age_s, self._rest_s)
        if not is_due or now_s < self._not_before_s:
            return
        if not self._refreshing.acquire(blocking=self._entries is None):
            return
        try:
            if self._renewals == seen:  # else another thread did it while this one waited
                self._watched_refresh(scan=wants_scan)
                self._renewals += 1
                self._renewed_at_s = self._monotonic_s()
                self._rest_s = (self._renewed_at_s - now_s) * _REST_FACTOR
        except StorageError:
            if self._entries is None:
                raise
            self._not_before_s = self._monotonic_s() + self._ttl_s
            log.exception("the list of sessions could not be renewed; the old one stays")
        finally:
            self._refreshing.release()

    def _watched_refresh(self, *, scan: bool) -> None:
        outcome = RenewalOutcome.FAILED
        try:
            self._refresh(scan=scan)
            outcome = RenewalOutcome.RENEWED
        except StorageError:
            outcome = RenewalOutcome.STORAGE_FAILED
            raise
        finally:
            self._watch.renewed(outcome)

    def _refresh(self, *, scan: bool) -> None:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="catalogue") as pool:
            found = collect(
                sign for root in self._roots for sign in marked(self._backend, root, self.skips)
            )
            if scan:
                folders = collect(
                    sign
                    for root in self._roots
                    for sign in with_data(self._backend, root, pool, self.skips)
                )
                self._scanned = {
                    key: sign for key, sign in folders.items() if sign.adds_to(found.get(key))
                }
                self._scanned_at_s = self._monotonic_s()
            found = collect([*found.values(), *self._scanned.values()])
            self._read_entries(found, pool)
            self._check(found, pool)
        self._checks = {key: check for key, check in self._checks.items() if key in found}
        entries = [self._entry(key, sign) for key, sign in found.items()]
        entries.sort(key=lambda entry: (-entry.start_ms, entry.ref))
        names: _Names = {}
        for entry in entries:
            for name in entry.answers_to():
                names.setdefault(name, []).append(entry)
        self._entries, self._names = entries, names

    def _read_entries(self, found: dict[SessionId, Found], pool: Executor) -> None:
        """Read the catalogue entries that are new or changed."""
        infos = {key: sign.entry for key, sign in found.items() if sign.entry is not None}
        self._read = {
            key: self._read[key]
            for key, info in infos.items()
            if key in self._read and self._read[key][0] == info.etag
        }
        changed = {key: info for key, info in infos.items() if key not in self._read}
        for key, entry in zip(changed, pool.map(self._read_entry, changed.values()), strict=True):
            self._read[key] = (changed[key].etag, entry)
            # A collector that came back has said so here: an end seen before counts no more.
            self._checks.pop(key, None)

    def _read_entry(self, info: ObjectInfo) -> CatalogueEntry | None:
        try:
            data = read_all(self._backend, info.key, max_bytes=_MAX_ENTRY_BYTES)
            entry = decode_catalogue_entry(data, source=info.key)
            check_entry(entry)
            return entry
        except NotFoundError:
            return None
        except (WireError, IntegrityError):
            self.skips.add(SkipReason.BAD_CATALOGUE_ENTRY, info.key)
            return None

    def _check(self, found: dict[SessionId, Found], pool: Executor) -> None:
        """Look closer at the sessions whose turn it is."""
        now_ms = int(self._now_s() * 1000)
        due = sorted(
            (key for key, sign in found.items() if self._is_due(key, sign, now_ms)),
            key=lambda key: session_started_ms(key[2]),
            reverse=True,
        )
        stop_s = self._monotonic_s() + CHECK_S

        def look(key: SessionId) -> Check:
            sign = found[key]
            if sign.generation is Generation.OURS:
                return check_ours(self._backend, sign.ref, root=sign.root, now_ms=now_ms)
            return check_kuberay(
                self._backend,
                sign.ref,
                root=sign.root,
                marker_ms=sign.marker_ms,
                now_ms=now_ms,
            )

        for start in range(0, len(due), _CHECKS_AT_ONCE):
            keys = due[start : start + _CHECKS_AT_ONCE]
            self._checks.update(zip(keys, pool.map(look, keys), strict=True))
            if self._monotonic_s() >= stop_s:
                break

    def _is_due(self, key: SessionId, sign: Found, now_ms: int) -> bool:
        read = self._read.get(key)
        if read is not None and read[1] is not None and read[1].ended_ms:
            return False
        check = self._checks.get(key)
        return check is None or check.again_ms <= now_ms

    def _entry(self, key: SessionId, sign: Found) -> SessionEntry:
        wire = self._read.get(key, ("", None))[1]
        check = self._checks.get(key)
        if wire is not None and wire.ended_ms:
            unclean = wire.state == SessionState.UNCLEAN
            state = SessionState.UNCLEAN if unclean else SessionState.ENDED
            reason = StateReason.STALE_MANIFEST if unclean else StateReason.END_MARKER
            end_ms: int | None = wire.ended_ms
        elif check is not None:
            state, reason, end_ms = check.state, check.reason, check.end_ms
        else:
            state = SessionState.ENDED if sign.marker_ms else SessionState.UNCLEAN
            reason, end_ms = StateReason.NOT_CHECKED_YET, None
        return SessionEntry(
            ref=self._with_owner(sign, wire, check),
            state=state,
            reason=reason,
            start_ms=wire.started_ms if wire else session_started_ms(sign.ref.session),
            end_ms=end_ms,
            size_bytes=(wire.size_bytes or None) if wire else None,
        )

    def _with_owner(
        self, sign: Found, wire: CatalogueEntry | None, check: Check | None
    ) -> SessionRef:
        """The ref with its owner, which our keys do not hold; without one that cannot be one."""
        ref = sign.ref
        kind, name = ref.owner_kind, ref.owner_name
        if not kind and wire is not None:
            kind, name = wire.owner_kind.lower(), wire.owner_name
        if not kind and check is not None:
            kind, name = check.owner_kind, check.owner_name
        try:
            return SessionRef(ref.namespace, ref.cluster, ref.session, kind, name) if kind else ref
        except InvalidKeyError:
            key = catalogue_key(ref) if sign.entry is None else sign.entry.key
            self.skips.add(SkipReason.BAD_OWNER, key)
            return ref
