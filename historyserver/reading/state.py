"""Whether a session runs, ended or broke off: one set of rules, for locating and for the list.

Our collectors say it: `end.json`, and manifests that are renewed while they live. KubeRay's
say nothing of an end. But v1.6 and v1.7 upload the logs of a running session only when it ends
(on SIGTERM or when the next session has begun), so the head's `gcs_server.out` proves the end.
Without it (logs not collected, or a kill) a session with a fresh object is taken as running,
a quiet one as ended when it has its marker and as unclean when it has none, since v1.7 writes
the first marker of a pod only at an orderly end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from historyserver.folding.session_state import SessionState

FRESH_MS = 2 * 60 * 1000
"""Our collectors renew their manifests much more often while they live."""

KUBERAY_QUIET_MS = 10 * 60 * 1000
"""KubeRay's collector uploads events every 5 minutes; twice that without any means silence."""

COME_BACK_MS = 60 * 60 * 1000
"""So long after its last sign of life a lost collector of ours may still be restarted."""

KUBERAY_IDLE_MS = 24 * 60 * 60 * 1000
"""An idle cluster has no events. After so long without any, a session that nobody ended is over."""

HEAD_LOG = "gcs_server.out"
"""Only a head node has this log."""


class StateReason(StrEnum):
    """Which sign told the state."""

    END_MARKER = "end_marker"
    """`end.json` is there, or the head's manifest says that it drained."""
    FRESH_MANIFEST = "fresh_manifest"
    """A collector of ours gave a sign of life within `FRESH_MS`."""
    STALE_MANIFEST = "stale_manifest"
    """No end marker, and no sign of life since."""
    HEAD_LOGS = "head_logs"
    """KubeRay: the head's logs were uploaded."""
    FRESH_OBJECTS = "fresh_objects"
    """KubeRay: something was written within `KUBERAY_QUIET_MS`."""
    MARKED_AND_QUIET = "marked_and_quiet"
    """KubeRay: the marker is there and nothing was written lately."""
    UNMARKED_AND_QUIET = "unmarked_and_quiet"
    """KubeRay: no marker and nothing was written lately: the collector was killed."""
    NOT_CHECKED_YET = "not_checked_yet"
    """In the list only: its turn to be looked at has not come."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A state, why, and whether it is final."""

    state: SessionState
    reason: StateReason
    settled: bool


def our_verdict(
    *,
    has_end: bool,
    head_ended: bool,
    newest_running_ms: int,
    now_ms: int,
    fresh_ms: int = FRESH_MS,
) -> Verdict:
    """The state of a session that our collectors stored.

    Args:
        has_end: `end.json` is there.
        head_ended: the head's manifest says that its collector drained to the end.
        newest_running_ms: when a collector that has not ended last gave a sign of life, by the
            store's clock; 0 when there is none.
        now_ms: the time now.
        fresh_ms: how old a sign of life may be.

    """
    fresh = now_ms - newest_running_ms < fresh_ms
    if has_end or head_ended:
        return Verdict(SessionState.ENDED, StateReason.END_MARKER, settled=not fresh)
    if fresh:
        return Verdict(SessionState.RUNNING, StateReason.FRESH_MANIFEST, settled=False)
    settled = now_ms - newest_running_ms >= COME_BACK_MS
    return Verdict(SessionState.UNCLEAN, StateReason.STALE_MANIFEST, settled)


def kuberay_verdict(
    *,
    has_marker: bool,
    has_head_logs: bool,
    newest_ms: int,
    now_ms: int,
    fresh_ms: int = FRESH_MS,
    quiet_ms: int = KUBERAY_QUIET_MS,
) -> Verdict:
    """The state of a session that KubeRay's collectors stored.

    Args:
        has_marker: the session's marker is there.
        has_head_logs: the log `HEAD_LOG` of some node is there.
        newest_ms: when the newest object or the marker was written, by the store's clock.
        now_ms: the time now.
        fresh_ms: how long workers may still upload after the head has.
        quiet_ms: how long nothing may have been written while the session runs.

    """
    age_ms = now_ms - newest_ms
    if has_head_logs:
        return Verdict(SessionState.ENDED, StateReason.HEAD_LOGS, settled=age_ms >= fresh_ms)
    if age_ms < quiet_ms:
        return Verdict(SessionState.RUNNING, StateReason.FRESH_OBJECTS, settled=False)
    settled = age_ms >= KUBERAY_IDLE_MS
    if has_marker:
        return Verdict(SessionState.ENDED, StateReason.MARKED_AND_QUIET, settled)
    return Verdict(SessionState.UNCLEAN, StateReason.UNMARKED_AND_QUIET, settled)
