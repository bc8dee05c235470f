"""The chart, installed by the real helm, and its programs as processes of this machine.

The Deployment's pods cannot run without a node. Their programs run here instead, from the
repository's code: with the settings files of the chart's ConfigMap, with a token of the chart's
ServiceAccount and thus its RBAC, reached through the chart's Service.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import urllib3
import yaml

from tests.chart import rendering
from tests.chart.rendering import helm
from tests.cluster.processes import Processes, free_ports
from tests.harness.waiting import eventually
from tests.operator.platform import Platform

ROOT = Path(__file__).parents[2]
NAME = "ray-history-server-webhook"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
LABEL = "rayhistory.io/inject"


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod of the webhook: its two programs."""

    name: str
    port: int
    health_port: int
    certs_port: int
    folder: Path
    """Where `certs` writes what the webhook reads."""


@dataclass
class Release:
    """One installation of the chart in a namespace of its own."""

    platform: Platform
    folder: Path
    namespace: str
    label: str = LABEL
    replicas: dict[str, Replica] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._processes = Processes(self.folder)
        self._account = ""
        self._made = 0

    def process_logs(self) -> list[Path]:
        """Shown when a test fails."""
        return sorted(self.folder.glob("*.log"))

    def helm(self, *arguments: str, fails: bool = False) -> str:
        """Run helm; asserts how it ends."""
        at = [f"--kubeconfig={self.platform.server.kubeconfig()}", f"--namespace={self.namespace}"]
        # One cache for all would be shared by releases that are made at once.
        environment = os.environ | {"HELM_CACHE_HOME": str(self.folder / "helm")}
        done = subprocess.run(
            [helm(), *at, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=environment,
        )
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def apply(self, *values: str) -> None:
        """Install or upgrade; without waiting, as no pod can start."""
        chart = str(package(self.platform.folder))
        command = ["upgrade", "--install", "history", chart, "--wait=false"]
        self.helm(*command, f"--set=injection.label={self.label}", *(f"--set={v}" for v in values))

    def settings(self) -> dict[str, Any]:
        """The ConfigMap's files."""
        data: dict[str, Any] = self.platform.admin.get(self.path("configmaps", NAME))["data"]
        return data

    def configuration(self) -> dict[str, Any]:
        """The webhook configuration, as it is now."""
        found: dict[str, Any] = self.platform.admin.get(self.hooks_path)
        return found

    @property
    def hooks_path(self) -> str:
        """Where the webhook configuration is, by the name that `certs` is told."""
        (name,) = yaml.safe_load(self.settings()["certs.yaml"])["configurations"]
        return f"{HOOKS}/{name}"

    def path(self, resource: str, name: str = "") -> str:
        """Where core objects of the namespace are."""
        return f"/api/v1/namespaces/{self.namespace}/{resource}/{name}".rstrip("/")

    def secret(self) -> dict[str, bytes]:
        """What `certs` keeps."""
        data = self.platform.admin.get(self.path("secrets", f"{NAME}-tls")).get("data") or {}
        return {name: b64decode(value) for name, value in data.items()}

    def start_replica(self, *certs_options: str) -> Replica:
        """Start both programs; returns when the webhook is ready and the Service leads to it."""
        self._made += 1
        name = f"replica-{self._made}"
        port, health_port, certs_port = free_ports(3)
        replica = Replica(name, port, health_port, certs_port, self.folder / name / "tls")
        replica.folder.mkdir(parents=True)
        for file, content in self.settings().items():
            (replica.folder.parent / file).write_text(content)
        self._start_certs(replica, certs_options)
        self.start_webhook(replica)
        return replica

    def start_webhook(self, replica: Replica) -> None:
        """Start a replica's webhook, again if it was stopped."""
        self._run(
            f"{replica.name}-webhook",
            *("webhook", "serve", f"--config={replica.folder.parent}/webhook.yaml"),
            *("--listen-address=127.0.0.1", f"--listen-port={replica.port}"),
            f"--listen-health-port={replica.health_port}",
            f"--tls-cert-file={replica.folder}/tls.crt",
            f"--tls-key-file={replica.folder}/tls.key",
            # Endpoints change at once here, and a mounted file as soon as it is written.
            *("--listen-drain-seconds=1", "--tls-reload-every-seconds=0.2"),
            f"--kubernetes-kubeconfig={self._kubeconfig()}",
        )
        eventually("the webhook is ready", lambda: is_ready(replica.health_port))
        self.replicas[replica.name] = replica
        self._lead()
        eventually("the CA is published", self.is_trusted)

    def stop_webhook(self, replica: Replica) -> None:
        """As a node does with a pod: out of the Service, then told to end."""
        del self.replicas[replica.name]
        self._lead()
        self._processes.end(f"{replica.name}-webhook")

    def kill_webhook(self, replica: Replica) -> None:
        """As a node that dies: nobody is told, and the Service still leads there."""
        self._processes.signal(f"{replica.name}-webhook", signal.SIGKILL)

    def certs(self, replica: Replica, *arguments: str) -> str:
        """`certs show` or `certs rotate`, by an operator."""
        return subprocess.run(
            [sys.executable, "-m", "certs", *arguments, *self._certs_options(replica)],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout

    def is_trusted(self) -> bool:
        """Whether the API server is told the CA of the Secret."""
        bundle = self.secret().get("ca.crt")
        hooks = self.configuration()["webhooks"]
        return bool(bundle) and all(
            b64decode(hook["clientConfig"].get("caBundle", "")) == bundle for hook in hooks
        )

    def reviews(self, replica: Replica) -> int:
        """How many pods a replica's webhook was asked about."""
        log = self._processes.log(f"{replica.name}-webhook")
        return log.read_bytes().count(b'"message":"review"')

    def stop(self) -> None:
        """As Kubernetes ends the Deployment's pods."""
        self.replicas.clear()
        self._lead()
        self._processes.end_all()

    def close(self) -> None:
        """End the programs at once, and uninstall."""
        self._processes.kill_all()
        self._account = ""
        self.helm("uninstall", "history", "--ignore-not-found", "--wait=false")

    def _start_certs(self, replica: Replica, options: Sequence[str]) -> None:
        own = (f"--health-port={replica.certs_port}", "--address=127.0.0.1")
        self._run(
            f"{replica.name}-certs",
            *("certs", "run", *self._certs_options(replica), *own, *options),
        )

    def _certs_options(self, replica: Replica) -> list[str]:
        return [
            f"--config={replica.folder.parent}/certs.yaml",
            f"--directory={replica.folder}",
            f"--kubeconfig={self._kubeconfig()}",
        ]

    def _run(self, name: str, *arguments: str) -> None:
        self._processes.start(name, sys.executable, "-m", *arguments, cwd=ROOT)

    def _kubeconfig(self) -> str:
        if not self._account:
            server = self.platform.server
            account = server.existing_account(NAME, namespace=self.namespace)
            self._account = str(account.kubeconfig)
        return self._account

    def _lead(self) -> None:
        address = self.platform.admin.get(self.path("services", NAME))["spec"]["clusterIP"]
        ports = [replica.port for replica in self.replicas.values()]
        self.platform.network.route(f"{address}:443", *ports)


package = cache(rendering.package)
"""Made once per folder."""


@contextmanager
def default_release(platform: Platform, folder: Path) -> Iterator[Release]:
    """The chart with its defaults, and one replica."""
    made = Release(platform, folder, platform.server.namespace(prefix="history"))
    made.apply()
    made.start_replica()
    yield made
    made.close()


def is_ready(port: int) -> bool:
    """Whether a program's readiness probe says so."""
    at = f"http://127.0.0.1:{port}/readyz"
    return urllib3.request("GET", at, retries=False, timeout=2.0).status == 200
