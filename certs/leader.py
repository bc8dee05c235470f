"""Which replica acts: the holder of a Lease, as in client-go's leaderelection.

Clocks are not compared. A follower measures with its own clock how long the Lease has not
changed; only when that is longer than the Lease's duration, it takes over. The leader stops
acting some time before others may think it dead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from certs.cluster import Cluster, ClusterError, Failure, Lease

_log = logging.getLogger("certs.leader")

_ACTS_FOR = 2 / 3
"""Part of the duration for which a leader acts without a renewal (client-go: 10 s of 15 s)."""


class Leadership:
    """Takes part in the election. For one thread."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        identity: str,
        duration_s: int,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._duration_s = duration_s
        self._now = now
        self._monotonic = monotonic
        self._observed: Lease | None = None
        self._observed_s = 0.0
        self._acts_until_s = float("-inf")

    def is_leading(self) -> bool:
        """Whether this replica may act now."""
        return self._monotonic() < self._acts_until_s

    @property
    def holder(self) -> str:
        """Who holds the Lease as it was last seen; empty: nobody, or not seen."""
        return self._observed.holder if self._observed is not None else ""

    def attend(self) -> bool:
        """Take, keep or watch the Lease. Call it often. Raises `ClusterError`."""
        began_s = self._monotonic()
        lease = self._cluster.lease() or Lease(holder="", duration_s=self._duration_s)
        if self._observed is None or lease.version != self._observed.version:
            self._observed, self._observed_s = lease, began_s
        if not self._may_take(lease, began_s):
            self._resign()
            return False
        return self._take(lease, began_s)

    def release(self) -> None:
        """Let another replica lead at once. Raises `ClusterError`."""
        if not self.is_leading():
            return
        self._resign()
        lease = self._cluster.lease()
        if lease is not None and lease.holder == self._identity:
            self._cluster.write_lease(
                replace(lease, holder="", duration_s=1, renewed_at=self._now())
            )
            _log.info("lease released")

    def _may_take(self, lease: Lease, now_s: float) -> bool:
        if lease.holder in ("", self._identity):
            return True
        return now_s - self._observed_s > max(1, lease.duration_s)

    def _take(self, lease: Lease, began_s: float) -> bool:
        now = self._now()
        is_ours = lease.holder == self._identity
        wanted = Lease(
            holder=self._identity,
            duration_s=self._duration_s,
            acquired_at=lease.acquired_at if is_ours else now,
            renewed_at=now,
            transitions=lease.transitions + (0 if is_ours or not lease.version else 1),
            version=lease.version,
        )
        try:
            self._cluster.write_lease(wanted)
        except ClusterError as error:
            if error.failure is not Failure.CONFLICT:
                raise
            if not is_ours:
                self._resign()
            return self.is_leading()
        if not self.is_leading():
            _log.info("leading", extra={"identity": self._identity, "before": lease.holder})
        self._observed = replace(wanted, version="")
        self._acts_until_s = began_s + self._duration_s * _ACTS_FOR
        return True

    def _resign(self) -> None:
        if self.is_leading():
            _log.warning("no longer leading", extra={"identity": self._identity})
        self._acts_until_s = float("-inf")
