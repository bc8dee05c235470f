"""Makes the parts of a collector out of its settings; nothing runs yet."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.dashboard.client import DashboardClient, DashboardCredentials
from collector.dashboard.metrics import DashboardMetrics
from collector.intake.commits import CommitParts
from collector.intake.dedupe import Window
from collector.intake.disk_thread import RECENT_IDS, DiskThread
from collector.intake.ledger import Ledger
from collector.intake.quarantine import Quarantine
from collector.journal import Journal
from collector.lifecycle.dashboard_polling import Dashboard
from collector.lifecycle.discovery import Discovery
from collector.lifecycle.following import FollowParts
from collector.lifecycle.session_follower import NodeNames, SessionFollower
from collector.metrics import CollectorMetrics
from collector.settings import Settings
from collector.shipping.metrics import ShippingMetrics
from collector.shipping.uploads import Shipper
from storage.backend import Backend


class StartError(Exception):
    """The collector cannot start; one line for the user."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a collector is made of."""

    metrics: CollectorMetrics
    window: Window
    quarantine: Quarantine
    follow: FollowParts
    dashboard: Dashboard
    node_list: DashboardClient
    """Asks for this node's id, when no file tells it."""
    follower: SessionFollower
    lock: int
    """Handle that holds the data directory as long as the process lives."""


def assemble(
    settings: Settings, backend: Backend, *, version: str, env: Mapping[str, str]
) -> Parts:
    """Make all parts.

    Args:
        settings: checked settings.
        backend: where to.
        version: of this collector.
        env: the environment, for dashboard credentials only.

    Raises `StartError` when the data directory cannot be used, `CredentialsError` when the
    dashboard's are missing.

    """
    lock = _lock(settings.data_dir)
    credentials = DashboardCredentials.from_env(env)
    metrics, window, nodes = CollectorMetrics(), Window(), NodeNames()
    intake = _intake(settings, metrics, window, nodes)
    follow = _follow_parts(settings, backend, intake, version=version)
    dashboard = Dashboard(
        settings,
        credentials=credentials,
        metrics=DashboardMetrics(metrics.registry),
        errors=metrics.loop_errors,
    )
    node_list = DashboardClient(settings.node_list_url, credentials)
    follower = SessionFollower(
        follow,
        discovery=Discovery(settings, client=node_list),
        dashboard=dashboard,
        nodes=nodes,
    )
    return Parts(
        metrics=metrics,
        window=window,
        quarantine=intake.quarantine,
        follow=follow,
        dashboard=dashboard,
        node_list=node_list,
        follower=follower,
        lock=lock,
    )


def _follow_parts(
    settings: Settings, backend: Backend, intake: CommitParts, *, version: str
) -> FollowParts:
    shipping_metrics = ShippingMetrics(intake.metrics.registry)
    return FollowParts(
        settings=settings,
        journal=intake.journal,
        disk=DiskThread(intake),
        ledger=intake.ledger,
        shipper=Shipper(backend, metrics=shipping_metrics),
        metrics=intake.metrics,
        shipping_metrics=shipping_metrics,
        version=version,
    )


def _intake(
    settings: Settings, metrics: CollectorMetrics, window: Window, nodes: NodeNames
) -> CommitParts:
    journal = Journal(
        settings.data_dir,
        limits=settings.limits,
        metrics=metrics,
        before_seal=lambda: window.save(settings.data_dir / RECENT_IDS),
    )
    ledger = Ledger()
    quarantine = Quarantine(
        settings.data_dir / "quarantine",
        max_bytes=settings.quarantine_max_bytes,
        metrics=metrics,
        ledger=ledger,
    )
    return CommitParts(
        journal=journal,
        window=window,
        quarantine=quarantine,
        ledger=ledger,
        metrics=metrics,
        node_of=nodes.of,
    )


def _lock(data_dir: Path) -> int:
    """Take the data directory for this process, as long as it lives."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise StartError(f"--data-dir={data_dir}: {error.strerror}; give a writable one") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.close(handle)
        raise StartError(
            f"--data-dir={data_dir}: another collector uses it; give each its own"
        ) from error
    return handle
