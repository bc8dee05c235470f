"""Everything stored of one session, whichever collectors wrote it: the trees joined into one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from historyserver.reading.damage import DamageLog, DamageReason
from historyserver.reading.kuberay import generation_of, list_kuberay, markers
from historyserver.reading.listing import DEFAULT_ROOTS, Listing, fingerprint
from historyserver.reading.ours import OurTree, list_ours
from historyserver.reading.source import SessionSource
from historyserver.reading.state import (
    FRESH_MS,
    HEAD_LOG,
    KUBERAY_QUIET_MS,
    Verdict,
    kuberay_verdict,
)
from storage.backend import Backend, InvalidKeyError, NotFoundError
from storage.layout import Generation, SessionRef, session_json_key, session_started_ms


def locate(
    backend: Backend,
    ref: SessionRef,
    *,
    roots: Sequence[str] = DEFAULT_ROOTS,
    now_ms: int | None = None,
    fresh_ms: int = FRESH_MS,
    quiet_ms: int = KUBERAY_QUIET_MS,
) -> SessionSource:
    """Find what is stored of a session, by listing; of its content only manifests are read.

    Args:
        backend: where.
        ref: which session; with its owner, which only our own tree tells by itself.
        roots: where to look below the storage root, each empty or ending with `/`.
        now_ms: the time now; the clock's when None.
        fresh_ms: see `state.our_verdict`.
        quiet_ms: see `state.kuberay_verdict`.

    Raises:
        NotFoundError: nothing of this session is stored, not even a marker.

    """
    damage, listing = DamageLog(), Listing()
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    trees = [list_ours(backend, ref, root=root, damage=damage) for root in roots]
    ours = next((tree for tree in trees if tree.found), None)
    known = _with_owner(ref, ours, damage)
    for root in roots:
        listing.join(list_kuberay(backend, known, root=root, damage=damage))
    if ours is None:
        found = _markers(backend, known, roots)
        if not listing.marks and not found:
            raise NotFoundError(f"{ref.namespace}/{ref.name}/{ref.session}: no such session")
        generation = generation_of(listing, found)
        verdict = _kuberay_verdict(listing, found, now_ms=now_ms, windows_ms=(fresh_ms, quiet_ms))
    else:
        listing.join(ours.listing)
        generation, verdict = Generation.OURS, ours.verdict(now_ms=now_ms, fresh_ms=fresh_ms)
    return _source(known, listing, ours, generation=generation, verdict=verdict, damage=damage)


def _markers(backend: Backend, ref: SessionRef, roots: Sequence[str]) -> dict[Generation, int]:
    """The time of each generation's marker."""
    found: dict[Generation, int] = {}
    for root in roots:
        found |= markers(backend, ref, root=root)
    return found


def _with_owner(ref: SessionRef, ours: OurTree | None, damage: DamageLog) -> SessionRef:
    """The ref with the owner that session.json tells, as who asks by cluster may not know it."""
    start = ours.start if ours else None
    if start is None or not start.owner_kind or ref.owner_kind:
        return ref
    kind = start.owner_kind.lower()
    try:
        return SessionRef(ref.namespace, ref.cluster, ref.session, kind, start.owner_name)
    except InvalidKeyError:
        damage.add(DamageReason.BAD_OWNER, session_json_key(ref), 0)
        return ref


def _kuberay_verdict(
    listing: Listing, found: Mapping[Generation, int], *, now_ms: int, windows_ms: tuple[int, int]
) -> Verdict:
    return kuberay_verdict(
        has_marker=bool(found),
        has_head_logs=any(path == HEAD_LOG for _, path in listing.logs),
        newest_ms=max([listing.newest_ms, *found.values()]),
        now_ms=now_ms,
        fresh_ms=windows_ms[0],
        quiet_ms=windows_ms[1],
    )


def _source(
    ref: SessionRef,
    listing: Listing,
    ours: OurTree | None,
    *,
    generation: Generation,
    verdict: Verdict,
    damage: DamageLog,
) -> SessionSource:
    start = ours.start if ours else None
    end = ours.end if ours else None
    told = (ref.owner_kind, ref.owner_name, generation.value, verdict.state.value)
    return SessionSource(
        session=ref,
        generation=generation.value,
        event_files=tuple(listing.events[key] for key in sorted(listing.events)),
        log_files=listing.log_files(),
        snapshots=tuple(listing.snapshots[name] for name in sorted(listing.snapshots)),
        node_reports=tuple(sorted(listing.reports, key=lambda report: report.node_id)),
        start_ms=start.started_ms if start else session_started_ms(ref.session),
        end_ms=end.ended_ms if end else 0,
        state=verdict.state.value,
        reason=verdict.reason.value,
        settled=verdict.settled,
        fingerprint=fingerprint([*listing.marks, "\0".join(told)]),
        damage=tuple(damage.items),
    )
