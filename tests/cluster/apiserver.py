"""A real kube-apiserver with its etcd on loopback: no nodes, no controllers, RBAC as in a cluster.

Binaries are found as Kubernetes' envtest finds them (`KUBEBUILDER_ASSETS`), else in the cache
folder where the project's cluster build puts them. Without controllers nothing makes a
namespace's `default` account or deletes what is owned: `namespace` makes the account.
"""

from __future__ import annotations

import contextlib
import csv
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.cluster import build, pki
from tests.cluster.client import Client, RefusedError
from tests.cluster.kubeconfig import write_kubeconfig
from tests.cluster.processes import Processes, free_ports

BINARIES = ("etcd", "kube-apiserver")
START_S = 90


class MissingError(Exception):
    """The binaries are not there."""


def binaries() -> Path:
    """The folder of etcd and kube-apiserver. Raises `MissingError` with what to do."""
    absent = build.missing(BINARIES)
    if absent:
        raise MissingError(
            f"no {' and no '.join(absent)} in {build.folder()}; build them once with `python -m "
            "tests.cluster.build api`, or set KUBEBUILDER_ASSETS to a folder that has them"
        )
    return build.folder()


@dataclass(frozen=True, slots=True)
class Account:
    """A ServiceAccount with its rights."""

    namespace: str
    name: str
    kubeconfig: Path
    client: Client


class ApiServer:
    """Started by `start`, ended by `stop`. For one test process."""

    def __init__(self, folder: Path, *, options: Sequence[str] = ()) -> None:
        self._folder = folder
        self._binaries = binaries()
        self._options = tuple(options)
        self._token = secrets.token_hex(16)
        self._processes = Processes(folder)
        self._etcd_port, self._peer_port, self._port = free_ports(3)
        pki.write_server(folder, names=["localhost"], addresses=["127.0.0.1"])
        pki.write_accounts(folder)
        with (folder / "tokens.csv").open("w", newline="") as file:
            csv.writer(file).writerow([self._token, "admin", "admin", "system:masters"])

    @classmethod
    def start(cls, folder: Path, *, options: Sequence[str] = ()) -> ApiServer:
        """Start in an empty folder, with more options, and wait until it is ready."""
        server = cls(folder, options=options)
        try:
            server._start_etcd()
            server._start_server()
        except BaseException:
            server.stop()
            raise
        return server

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def ca_file(self) -> Path:
        """The certificate to trust."""
        return self._folder / "server.crt"

    @property
    def accounts_key(self) -> Path:
        """The key that accounts' tokens are signed with."""
        return self._folder / "accounts.key"

    def process_logs(self) -> list[Path]:
        """Shown when a test fails."""
        return sorted(self._folder.glob("*.log"))

    def admin(self) -> Client:
        """A client that may do everything."""
        return self._client(self._token)

    def kubeconfig(self, *, name: str = "admin", token: str = "") -> Path:
        """A kubeconfig file for the administrator, or for a token."""
        path = self._folder / f"{name}.kubeconfig"
        token = token or self._token
        write_kubeconfig(path, server=self.url, ca_file=self.ca_file, token=token)
        return path

    def namespace(self, *, labels: Mapping[str, str] | None = None, prefix: str = "test") -> str:
        """Make a namespace with a name of its own and a `default` account, so that pods can be."""
        admin = self.admin()
        name = f"{prefix}-{secrets.token_hex(4)}"
        metadata = {"name": name, "labels": dict(labels or {})}
        admin.post("/api/v1/namespaces", {"metadata": metadata})
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        with contextlib.suppress(RefusedError):  # A controller may have made it.
            admin.post(accounts, {"metadata": {"name": "default"}})
        return name

    def account(
        self,
        name: str,
        *,
        namespace: str,
        rules: Sequence[Mapping[str, Any]] = (),
        cluster_rules: Sequence[Mapping[str, Any]] = (),
    ) -> Account:
        """Make a ServiceAccount with these RBAC rules, and a token of it."""
        admin = self.admin()
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        admin.post(accounts, {"metadata": {"name": name}})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        wide = f"{namespace}-{name}"
        if rules:
            _grant(admin, subject, rules, kind="Role", name=name, within=f"namespaces/{namespace}/")
        if cluster_rules:
            _grant(admin, subject, cluster_rules, kind="ClusterRole", name=wide, within="")
        return self.existing_account(name, namespace=namespace)

    def existing_account(self, name: str, *, namespace: str) -> Account:
        """A ServiceAccount that is there, and a token of it."""
        at = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {"spec": {"audiences": [], "expirationSeconds": 86400}}
        token = self.admin().post(at, request)["status"]["token"]
        path = self.kubeconfig(name=f"{namespace}-{name}", token=token)
        return Account(namespace, name, path, self._client(token))

    def restart(self, *, down_s: float = 0.0, abruptly: bool = False) -> None:
        """End the API server, leave it down for a while, and start it on the same port."""
        if abruptly:
            self._processes.signal("kube-apiserver", signal.SIGKILL)
        self._processes.end("kube-apiserver")
        time.sleep(down_s)
        self._start_server()

    def stop(self) -> None:
        """End both."""
        self._processes.end_all()

    def _start_etcd(self) -> None:
        at = f"http://127.0.0.1:{self._etcd_port}"
        peer = f"http://127.0.0.1:{self._peer_port}"
        self._run(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={at}",
            f"--advertise-client-urls={at}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        )

    def _start_server(self) -> None:
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={self.ca_file}",
            f"--tls-private-key-file={self._folder / 'server.key'}",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            f"--service-account-key-file={self._folder / 'accounts.pub'}",
            f"--service-account-signing-key-file={self._folder / 'accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            "--service-cluster-ip-range=10.96.0.0/24",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            f"--cert-dir={self._folder}",
            *self._options,
        )
        self._await_ready()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._processes.has_ended("kube-apiserver"):
                break
            with contextlib.suppress(RefusedError, urllib3.exceptions.HTTPError):
                self.admin().get("/readyz")
                return
            time.sleep(0.2)
        raise RuntimeError(f"kube-apiserver is not ready; see {self._folder}/kube-apiserver.log")

    def _run(self, name: str, *arguments: str) -> None:
        self._processes.start(name, str(self._binaries / name), *arguments)

    def _client(self, token: str) -> Client:
        return Client(url=self.url, ca_file=self.ca_file, token=token)


@pytest.fixture(scope="session")
def api_server() -> Iterator[ApiServer]:
    """A real API server, made once per test process; give each test a namespace of its own."""
    try:
        binaries()
    except MissingError as error:
        pytest.skip(str(error))
    folder = Path(tempfile.mkdtemp(prefix="apiserver-"))  # short paths, apart from tests' own
    server = ApiServer.start(folder)
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


def _grant(
    admin: Client,
    subject: Mapping[str, str],
    rules: Sequence[Mapping[str, Any]],
    *,
    kind: str,
    name: str,
    within: str,
) -> None:
    group = "rbac.authorization.k8s.io"
    at, plural = f"/apis/{group}/v1/{within}", kind.lower()
    metadata, reference = {"name": name}, {"apiGroup": group, "kind": kind, "name": name}
    admin.post(f"{at}{plural}s", {"metadata": metadata, "rules": list(rules)})
    admin.post(
        f"{at}{plural}bindings",
        {"metadata": metadata, "roleRef": reference, "subjects": [subject]},
    )
