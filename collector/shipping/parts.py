"""What shipping one session of one node is given, passed on as it is from where it is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from collector.journal.segments import SegmentStore
from collector.metrics import LoopErrors
from collector.ray_session import RaySession
from collector.shipping.metrics import ShippingMetrics
from collector.shipping.uploads import Shipper
from storage.layout import SessionRef
from storage.wire import EventTotals


@dataclass(frozen=True, slots=True)
class ShippingSettings:
    """How often and how much; docs/limits.md tells what a lost node costs."""

    scan_interval_s: float = 1.0
    hot_interval_s: float = 10.0
    """A lost node costs about this much of its logs and events."""
    hot_bytes: int = 4 * 1024 * 1024
    """A live segment is closed at this size, compressed."""
    manifest_reserve_s: float = 2.0
    """How long after the deadline the last manifest may still take."""


@dataclass(frozen=True, slots=True)
class ShippingParts:
    """One (session, node), and what brings it to storage."""

    ref: SessionRef
    """The session, as keys name it."""
    session: RaySession
    """The same, as it is on this disk."""
    role: str
    """`head` or `worker`."""
    collector_version: str
    """Told in the manifest."""
    journal: SegmentStore
    """The events; only those of this session and node are touched."""
    shipper: Shipper
    """The upload queue, shared by all sessions of this process."""
    state_dir: Path
    """Holds `<session>/<node>/state.json`; must survive a restart of the container, as Ray's
    logs do."""
    counted: Callable[[], EventTotals] = EventTotals
    """Counts of events since it was called last; asked at each manifest."""
    collect_logs: bool = True
    settings: ShippingSettings = ShippingSettings()
    metrics: ShippingMetrics = field(default_factory=ShippingMetrics)
    errors: LoopErrors = field(default_factory=LoopErrors)
    monotonic: Callable[[], float] = time.monotonic
    """The clock of intervals and deadlines."""

    @property
    def state_path(self) -> Path:
        """Where the local state is kept."""
        session = self.session
        return self.state_dir / session.session_name / session.node_id / "state.json"
