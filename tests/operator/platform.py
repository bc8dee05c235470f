"""The cluster of these tests, started once per test process."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import build
from tests.cluster.apiserver import ApiServer
from tests.cluster.client import Client
from tests.cluster.controllers import Controllers
from tests.cluster.service_network import ServiceNetwork
from tests.webhook.kube.real.objects import make_node

NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "helm")


@dataclass(frozen=True, slots=True)
class Platform:
    """API server, controllers, operator, and the way from the API server to Services."""

    folder: Path
    server: ApiServer
    network: ServiceNetwork
    controllers: Controllers

    @property
    def admin(self) -> Client:
        """May do everything."""
        return self.server.admin()

    def process_logs(self) -> list[Path]:
        """Shown when a test fails."""
        return sorted(self.folder.glob("*.log"))


def missing(kuberay: str = build.KUBERAY) -> list[str]:
    """Which programs are not built."""
    return build.missing((*NEEDED, build.operator(kuberay)))


@contextmanager
def running_platform(
    *, kuberay: str = build.KUBERAY, gates: tuple[str, ...] = ()
) -> Iterator[Platform]:
    """Start all; end all. The node runs nothing; its kubelet's version is what is asked for."""
    folder = Path(tempfile.mkdtemp(prefix="platform-"))  # a socket's path must be short
    network = ServiceNetwork.start(folder)
    try:
        server = ApiServer.start(folder, options=network.options())
        try:
            controllers = Controllers.start(server, folder, kuberay=kuberay, gates=gates)
            try:
                make_node(server.admin(), "node", "v" + build.KUBERNETES)
                yield Platform(folder, server, network, controllers)
            finally:
                controllers.stop()
        finally:
            server.stop()
    finally:
        network.close()
        shutil.rmtree(folder, ignore_errors=True)
