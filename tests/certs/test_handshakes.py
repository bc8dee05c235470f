"""Real handshakes, while certificates rotate."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import EcForge
from certs.files import PairFolder
from certs.keeper import Keeper
from certs.kept import Reason
from certs.leader import Leadership
from certs.metrics import CertsMetrics
from certs.steps import MakeAuthority, MakeLeaf, Step, applied
from certs.stored import from_data, to_data
from tests.certs.fake_cluster import FakeCluster
from tests.certs.forging import POLICY
from tests.certs.tls_server import ReviewServer

SHORT = replace(
    POLICY,
    names=frozenset({"localhost"}),
    publish=timedelta(seconds=1),
    remove=timedelta(seconds=2),
    skew=timedelta(0),
)
AUTHORITIES = 3
LEAVES_EACH = 3


class Now:
    offset_s = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC)


def keeper(cluster: FakeCluster, folder: Path) -> Keeper:
    return Keeper(
        cluster,
        configurations=("hooks",),
        policy=SHORT,
        forge=EcForge(),
        folder=PairFolder(folder),
        leadership=Leadership(
            cluster, identity=folder.name, duration_s=30, now=Now().now, monotonic=time.monotonic
        ),
        metrics=CertsMetrics(),
        clock=Now(),
    )


def rotate(cluster: FakeCluster, step: Step) -> None:
    """As `certs rotate` does."""
    assert cluster.secret_data is not None
    kept = from_data(cluster.secret_data).kept
    changed = applied(kept, step, forge=EcForge(), now=Now().now(), policy=SHORT)
    cluster.secret_data.update(to_data(changed))
    cluster.touch("secret")


class Clients:
    """Shake hands all the time, trusting what the configuration holds at that moment."""

    def __init__(self, cluster: FakeCluster, servers: list[ReviewServer]) -> None:
        self._cluster = cluster
        self._servers = servers
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._shake) for _ in range(2)]
        self.shaken = 0
        self.failed: list[str] = []

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _shake(self) -> None:
        while not self._ended.is_set():
            for server in self._servers:
                (bundle,) = self._cluster.configurations["hooks"]
                try:
                    shake(server.port, bundle)
                except OSError as error:
                    self.failed.append(repr(error))
                self.shaken += 1
            time.sleep(0.002)


def shake(port: int, bundle: bytes) -> None:
    context = ssl.create_default_context(cadata=bundle.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 and others check
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost"),
    ):
        pass


@pytest.mark.slow
def test_no_handshake_fails_while_everything_rotates(tmp_path: Path) -> None:
    """Three CAs and nine more leaves on two replicas; every handshake verifies."""
    cluster = FakeCluster()
    keepers = [keeper(cluster, tmp_path / name) for name in ("first", "second")]

    def turns(during_s: float) -> None:
        until = time.monotonic() + during_s
        while time.monotonic() < until:
            for one in keepers:
                assert one.attend()
            time.sleep(0.05)

    turns(0.2)
    with ExitStack() as stack:
        servers = [ReviewServer(tmp_path / name) for name in ("first", "second")]
        for server in servers:
            stack.callback(server.close)
            server.refresh()
        clients = stack.enter_context(Clients(cluster, servers))
        for _ in range(AUTHORITIES):
            rotate(cluster, MakeAuthority(Reason.REQUESTED))
            for _ in range(LEAVES_EACH):
                turns(1.3)
                newest = from_data(cluster.secret_data or {}).kept.leaf
                assert newest is not None
                rotate(cluster, MakeLeaf(Reason.REQUESTED, newest.authority))
        turns(1.5)
    assert clients.failed == []
    assert clients.shaken > 500
    for server in servers:
        assert len(server.served) >= 1 + AUTHORITIES * (1 + LEAVES_EACH) - 1
    assert len(from_data(cluster.secret_data or {}).kept.authorities) == 1


def test_a_handshake_with_a_foreign_bundle_fails(tmp_path: Path) -> None:
    """The clients above do verify."""
    cluster = FakeCluster()
    keeper(cluster, tmp_path / "first").attend()
    server = ReviewServer(tmp_path / "first")
    server.refresh()
    other = EcForge().authority(reason=Reason.MISSING, now=Now().now(), policy=SHORT)
    try:
        shake(server.port, cluster.configurations["hooks"][0])
        with pytest.raises(ssl.SSLCertVerificationError):
            shake(server.port, other.certificate)
    finally:
        server.close()
