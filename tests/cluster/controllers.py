"""The controllers of a cluster without nodes: Kubernetes' own, and the KubeRay operator."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import urllib3
import yaml

from tests.cluster import build
from tests.cluster.apiserver import ApiServer
from tests.cluster.client import Client, RefusedError
from tests.cluster.processes import Processes, free_ports

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KUBERNETES_CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "garbage-collector-controller",
    "resourcequota-controller",
    "persistentvolumeclaim-protection-controller",
    "validatingadmissionpolicy-status-controller",
)
"""What acts on objects that a test looks at; none that looks after nodes."""
START_S = 60


class Controllers:
    """Runs on an API server. Made by `start`, ended by `stop`."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self._server = server
        self._processes = Processes(folder)
        self._folder = folder

    @classmethod
    def start(
        cls,
        server: ApiServer,
        folder: Path,
        *,
        kuberay: str = build.KUBERAY,
        gates: Sequence[str] = (),
    ) -> Controllers:
        """Install KubeRay's kinds, and start all; returns when the operator is ready."""
        controllers = cls(server, folder)
        try:
            # First, as the garbage collector looks for new kinds every 30 s only.
            install_custom_resources(server.admin(), build.custom_resources(kuberay))
            controllers._start_kubernetes()
            controllers._start_operator(kuberay, gates)
        except BaseException:
            controllers.stop()
            raise
        return controllers

    @contextmanager
    def held(self) -> Iterator[None]:
        """Kubernetes' own controllers do nothing meanwhile; what is due waits."""
        name = "kube-controller-manager"
        self._processes.signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self._processes.signal(name, signal.SIGCONT)

    def stop(self) -> None:
        """End all."""
        self._processes.end_all()

    def _start_kubernetes(self) -> None:
        (port,) = free_ports(1)
        kubeconfig = self._server.kubeconfig()
        self._processes.start(
            "kube-controller-manager",
            str(build.folder() / "kube-controller-manager"),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--service-account-private-key-file={self._server.accounts_key}",
            f"--controllers={','.join(KUBERNETES_CONTROLLERS)}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self._folder}",
            "--leader-elect=false",
        )

    def _start_operator(self, version: str, gates: Sequence[str]) -> None:
        metrics, health = free_ports(2)
        name = build.operator(version)
        self._processes.start(
            name,
            str(build.folder() / name),
            f"-kubeconfig={self._operator_account()}",
            "-enable-leader-election=false",
            "-use-kubernetes-proxy",
            f"-metrics-addr=127.0.0.1:{metrics}",
            f"-health-probe-bind-address=127.0.0.1:{health}",
            *(f"-feature-gates={gate}=true" for gate in gates),
        )
        self._await_operator(name, health)

    def _operator_account(self) -> Path:
        """As in a cluster it is a ServiceAccount, by which policies tell it from a user."""
        namespace = self._server.namespace(prefix="kuberay")
        everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        rules = [everything]
        account = self._server.account("kuberay-operator", namespace=namespace, cluster_rules=rules)
        return account.kubeconfig

    def _await_operator(self, name: str, health: int) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and not self._processes.has_ended(name):
            with suppress(urllib3.exceptions.HTTPError):
                at = f"http://127.0.0.1:{health}/readyz"
                if urllib3.request("GET", at, retries=False, timeout=2.0).status == 200:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"{name} is not ready; see {self._processes.log(name)}")


def install_custom_resources(admin: Client, folder: Path) -> None:
    """Make the kinds of KubeRay, and wait until they are served."""
    names = []
    for path in sorted(folder.glob("*.yaml")):
        definition = yaml.load(path.read_text(), yaml.CSafeLoader)  # 15 s faster
        admin.post(CRDS, definition)
        names.append(definition["spec"]["names"]["plural"])
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with suppress(RefusedError):
            for name in names:
                admin.get(f"/apis/ray.io/v1/{name}?limit=1")
            return
        time.sleep(0.1)
    raise RuntimeError(f"{', '.join(names)} are not served")
