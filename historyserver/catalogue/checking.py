"""Looks at single sessions to tell what became of them, and says when to look again.

The list must not walk every session at every refresh, so what was ended is looked at once,
what runs once a minute, and what went quiet ever more seldom (a collector may come back, and
an idle cluster of KubeRay's is quiet too).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from historyserver.folding.session_state import SessionState
from historyserver.reading.damage import DamageLog
from historyserver.reading.kuberay import data_prefixes
from historyserver.reading.ours import list_ours
from historyserver.reading.state import FRESH_MS, HEAD_LOG, StateReason, Verdict, kuberay_verdict
from storage.backend import Backend, NotFoundError, ObjectInfo
from storage.layout import SessionRef, end_key, manifest_key, nodes_prefix, parse_log_key
from storage.layout import parse_manifest_key as _manifest_of

MAX_OBJECTS = 3_000
"""How many keys of a KubeRay session are looked at; more would only confirm the same."""

RECHECK_MS = 60_000
MAX_RECHECK_MS = 6 * 3600 * 1000
NEVER_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class Check:
    """What became of a session, as of the last look."""

    state: SessionState
    reason: StateReason
    end_ms: int | None
    again_ms: int
    """When to look again (ms since the epoch)."""
    owner_kind: str = ""
    """As session.json tells; of our sessions only."""
    owner_name: str = ""


def check_ours(backend: Backend, ref: SessionRef, *, root: str, now_ms: int) -> Check:
    """Look at a session that our collectors wrote and whose catalogue entry shows no end.

    While it runs, the first node with a fresh manifest tells so, and no manifest is read.
    """
    if _has_fresh_node(backend, ref, root=root, now_ms=now_ms):
        return Check(
            SessionState.RUNNING, StateReason.FRESH_MANIFEST, None, again_ms=now_ms + RECHECK_MS
        )
    tree = list_ours(backend, ref, root=root, damage=DamageLog())
    verdict = tree.verdict(now_ms=now_ms)
    end_ms = tree.end.ended_ms if tree.end else tree.last_seen_ms or None
    newest_ms = max(tree.newest_running_ms, tree.listing.newest_ms)
    return Check(
        verdict.state,
        verdict.reason,
        None if verdict.state is SessionState.RUNNING else end_ms,
        _again_ms(verdict, newest_ms, now_ms),
        tree.start.owner_kind.lower() if tree.start else "",
        tree.start.owner_name if tree.start else "",
    )


def check_kuberay(
    backend: Backend, ref: SessionRef, *, root: str, marker_ms: int, now_ms: int
) -> Check:
    """Look at a session that KubeRay's collectors wrote: how old is its newest object?"""
    newest_ms = marker_ms
    has_head_logs = False
    for prefix in data_prefixes(ref):
        for info in islice(backend.list(root + prefix), MAX_OBJECTS):
            if not isinstance(info, ObjectInfo):
                continue
            newest_ms = max(newest_ms, info.modified_ms)
            if info.key.endswith("/" + HEAD_LOG):
                log = parse_log_key(info.key.removeprefix(root))
                has_head_logs = has_head_logs or (log is not None and log.path == HEAD_LOG)
    verdict = kuberay_verdict(
        has_marker=marker_ms > 0, has_head_logs=has_head_logs, newest_ms=newest_ms, now_ms=now_ms
    )
    return Check(verdict.state, verdict.reason, None, _again_ms(verdict, newest_ms, now_ms))


def _has_fresh_node(backend: Backend, ref: SessionRef, *, root: str, now_ms: int) -> bool:
    try:
        backend.head(root + end_key(ref))
        return False
    except NotFoundError:
        pass
    for item in backend.list(root + nodes_prefix(ref), delimiter="/"):
        if isinstance(item, ObjectInfo):
            continue
        node = _manifest_of(item.prefix.removeprefix(root) + "manifest.json")
        try:
            info = backend.head(root + manifest_key(ref, node.node_id)) if node else None
        except NotFoundError:
            continue
        if info is not None and now_ms - info.modified_ms < FRESH_MS:
            return True
    return False


def _again_ms(verdict: Verdict, newest_ms: int, now_ms: int) -> int:
    if verdict.reason in {StateReason.END_MARKER, StateReason.HEAD_LOGS}:
        return NEVER_MS
    age_ms = max(0, now_ms - newest_ms)
    return now_ms + min(max(RECHECK_MS, age_ms // 10), MAX_RECHECK_MS)
