"""`certs run`: the parts put together, one loop, and its end.

The loop turns every few seconds, and at once when a watch tells of a changed configuration, so
that a configuration that was applied anew has its CA back within a second or so.
"""

from __future__ import annotations

import logging
import queue
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import FrameType

from certs.api import Api, client_configuration
from certs.authority import EcForge
from certs.clock import ServerClock
from certs.cluster import ClusterError
from certs.files import PairFolder
from certs.health import HealthServer
from certs.keeper import Keeper
from certs.kube import KubeCluster, Names
from certs.leader import Leadership
from certs.metrics import CertsMetrics
from certs.settings import Settings

_log = logging.getLogger("certs.running")

LEAST_PAUSE_S = 0.2
"""Between two turns, however often a configuration changes."""
STUCK_AFTER_S = 180.0
"""A turn that takes longer has hung: /healthz says so, and the kubelet begins anew."""
_LONGEST_RETRY_S = 30.0


def reach(settings: Settings, clock: ServerClock) -> KubeCluster:
    """The cluster. Raises `NoClusterError`."""
    api = Api(
        client_configuration(settings.kubeconfig),
        timeout_s=settings.request_timeout_s,
        on_date=clock.observe,
    )
    names = Names(
        namespace=settings.namespace,
        secret=settings.secret,
        lease=settings.lease_name,
        service=settings.service,
        hosts=settings.names,
    )
    return KubeCluster(api, names)


class Run:
    """One `certs run`."""

    def __init__(self, settings: Settings) -> None:
        """Raises `NoClusterError`, and `OSError` when the health port is taken."""
        self._settings = settings
        self._wakes: queue.SimpleQueue[bool] = queue.SimpleQueue()  # safe in signal handlers
        self._turned_s = time.monotonic()
        self._is_stopping = False
        clock = ServerClock()
        self._cluster = reach(settings, clock)
        metrics = CertsMetrics()
        self._leadership = Leadership(
            self._cluster,
            # A pod's name, and more: on the node's network, pods of a node share theirs.
            identity=f"{socket.gethostname()}_{secrets.token_hex(4)}",
            duration_s=settings.lease_s,
            now=clock.now,
            monotonic=time.monotonic,
        )
        self._keeper = Keeper(
            self._cluster,
            configurations=settings.configurations,
            policy=settings.policy,
            forge=EcForge(),
            folder=PairFolder(Path(settings.directory)),
            leadership=self._leadership,
            metrics=metrics,
            clock=clock,
            may_create_secret=settings.create_secret,
        )
        self._health = HealthServer(
            address=settings.address,
            port=settings.health_port,
            alive=self._alive,
            ready=lambda: self._keeper.problem,
            metrics=metrics,
        )

    def until_told(self) -> None:
        """Run until SIGTERM or SIGINT, then let another replica lead."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        self._health.start()
        for name in self._settings.configurations:
            watch = _Watch(self._cluster, name, lambda: self._wakes.put(False))
            threading.Thread(target=watch.follow, name=f"watch {name}", daemon=True).start()
        _log.info("started", extra={"health_port": self._health.port})
        while not self._is_stopping:
            self._keeper.attend()
            self._turned_s = time.monotonic()
            self._pause()
        self._end()

    def _pause(self) -> None:
        """Wait for the next turn; wakes that come in a burst are one."""
        deadline_s = time.monotonic() + LEAST_PAUSE_S
        timeout_s = self._settings.check_every_s
        try:
            while True:
                if self._wakes.get(timeout=max(0.0, timeout_s)):
                    return
                timeout_s = deadline_s - time.monotonic()
        except queue.Empty:
            return

    def _end(self) -> None:
        try:
            self._leadership.release()
        except ClusterError as error:
            _log.warning("lease not released", extra={"error": str(error)})
        self._health.close()
        _log.info("ended")

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_stopping = True
        self._wakes.put(True)

    def _alive(self) -> str:
        since = timedelta(seconds=int(time.monotonic() - self._turned_s))
        return f"no turn since {since}" if since.total_seconds() > STUCK_AFTER_S else ""


class _Watch:
    """Tells of each change of a configuration. Where it cannot, the loop's own turns remain."""

    def __init__(self, cluster: KubeCluster, name: str, wake: Callable[[], None]) -> None:
        self._cluster = cluster
        self._name = name
        self._wake = wake
        self._retry_s = 1.0

    def follow(self) -> None:
        """For ever, in a thread of its own."""
        while True:
            try:
                for _ in self._cluster.changes(self._name):
                    self._retry_s = 1.0
                    self._wake()
                time.sleep(LEAST_PAUSE_S)
            except ClusterError as error:
                extra = {"configuration": self._name, "error": str(error)}
                _log.debug("watch ended", extra=extra)
                time.sleep(self._retry_s)
                self._retry_s = min(self._retry_s * 2, _LONGEST_RETRY_S)
