"""`certs run` as processes, on a real API server with the rights that the chart gives."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3
import yaml

from tests.cluster.apiserver import ApiServer
from tests.cluster.client import Client, RefusedError

SERVICE = "hooks"
SECRET = "hooks-tls"
LEASE = "hooks-certs"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
WAIT_S = 60


def until(what: str, is_so: Callable[[], Any], *, within_s: float = WAIT_S) -> Any:
    """Wait for something to be true; what it said."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, RefusedError, urllib3.exceptions.HTTPError):
            if found := is_so():
                return found
        time.sleep(0.05)
    raise AssertionError(f"not within {within_s} s: {what}")


@dataclass
class CertsProcess:
    """One replica."""

    name: str
    config: Path
    folder: Path
    log: Path
    process: subprocess.Popen[bytes]
    health_port: int

    def ready(self) -> bool:
        return self._page("/readyz")[0] == 200

    def metric(self, name: str) -> float:
        """A value of the metrics page; 0 when it is not there."""
        for line in self._page("/metrics")[1].splitlines():
            if line.startswith(f"rayhistory_certs_{name} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it; its exit status."""
        self.process.send_signal(number)
        return self.process.wait(30)

    def lines(self) -> list[dict[str, Any]]:
        """What it logged."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def _page(self, path: str) -> tuple[int, str]:
        answer = urllib3.request(
            "GET", f"http://127.0.0.1:{self.health_port}{path}", retries=False, timeout=5.0
        )
        return answer.status, answer.data.decode()


@dataclass
class Installation:
    """What the chart makes: Secret, account, configuration; and processes."""

    server: ApiServer
    path: Path
    namespace: str
    admin: Client
    kubeconfig: Path
    processes: list[CertsProcess] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)

    @property
    def hooks(self) -> str:
        """Name of the configuration."""
        return f"{self.namespace}-hooks"

    def process_logs(self) -> list[Path]:
        """Shown when a test fails."""
        return self.logs

    def settings(self, **others: Any) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "service": SERVICE,
            "secret": SECRET,
            "configurations": [self.hooks],
            "extraNames": ["localhost"],
            "publishSeconds": 10,
            "removeSeconds": 10,
            "skewSeconds": 0,
            "checkEverySeconds": 1,
            "leaseSeconds": 5,
            "kubeconfig": str(self.kubeconfig),
            **others,
        }

    def run(self, name: str, **others: Any) -> CertsProcess:
        """Start a replica."""
        port, folder = free_port(), self.path / name
        config = self.path / f"{name}.yaml"
        settings = self.settings(directory=str(folder), healthPort=port, **others)
        config.write_text(yaml.safe_dump(settings))
        log = self.path / f"{name}.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "certs", "run", f"--config={config}"],
                stdout=file,
                stderr=file,
                cwd=Path(__file__).parents[2],
            )
        self.logs.append(log)
        made = CertsProcess(name, config, folder, log, process, port)
        self.processes.append(made)
        return made

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`certs show` or `certs rotate`, by an operator."""
        return subprocess.run(
            [sys.executable, "-m", "certs", *arguments, f"--config={self.processes[0].config}"],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[2],
        )

    def secret(self) -> dict[str, bytes]:
        found = self.admin.get(f"/api/v1/namespaces/{self.namespace}/secrets/{SECRET}")
        return {name: b64decode(value) for name, value in (found.get("data") or {}).items()}

    def bundles(self) -> list[bytes]:
        """What the configuration's entries hold."""
        found = self.admin.get(f"{HOOKS}/{self.hooks}")
        return [b64decode(hook["clientConfig"].get("caBundle", "")) for hook in found["webhooks"]]

    def is_published(self) -> bool:
        bundle = self.secret().get("ca.crt")
        return bool(bundle) and set(self.bundles()[:-1]) == {bundle}

    def is_alone(self, before: bytes) -> bool:
        """Whether a bundle without the CAs of before is published."""
        return before not in self.secret()["ca.crt"] and self.is_published()

    def leader(self) -> str:
        at = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{LEASE}"
        return str(self.admin.get(at)["spec"].get("holderIdentity", ""))

    def apply(self, port: int = 9) -> None:
        """Apply the configuration as a pipeline does that knows no bundle."""
        body = configuration(self.hooks, self.namespace, port)
        try:
            found = self.admin.get(f"{HOOKS}/{self.hooks}")
        except RefusedError:
            self.admin.post(HOOKS, body)
            return
        body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        self.admin.put(f"{HOOKS}/{self.hooks}", body)

    def close(self) -> None:
        for one in self.processes:
            if one.process.poll() is None:
                one.process.kill()
                one.process.wait()
        with contextlib.suppress(RefusedError):
            self.admin.delete(f"{HOOKS}/{self.hooks}")


def installation(server: ApiServer, path: Path, *, with_secret: bool = True) -> Installation:
    """An empty Secret and a configuration without bundle, as the chart makes them."""
    namespace, admin = server.namespace(prefix="certs"), server.admin()
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    if with_secret:
        admin.post(secrets, {"metadata": {"name": SECRET}, "type": "Opaque"})
    account = server.account(
        "webhook", namespace=namespace, rules=RULES, cluster_rules=cluster_rules(namespace)
    )
    made = Installation(server, path, namespace, admin, account.kubeconfig)
    made.apply()
    return made


RULES = (
    {
        "apiGroups": [""],
        "resources": ["secrets"],
        "verbs": ["get", "patch"],
        "resourceNames": [SECRET],
    },
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "patch"],
        "resourceNames": [LEASE],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
)
"""All that is needed; `docs/certificates.md` has the same."""


def cluster_rules(namespace: str) -> tuple[dict[str, Any], ...]:
    return (
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations"],
            "verbs": ["get", "watch", "patch"],
            "resourceNames": [f"{namespace}-hooks"],
        },
    )


def configuration(name: str, namespace: str, port: int) -> dict[str, Any]:
    """Two entries of ours, by URL and by Service, and one of somebody else."""
    labelled = {"kubernetes.io/metadata.name": namespace}
    rule = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }
    common = {
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "namespaceSelector": {"matchLabels": labelled},
        "timeoutSeconds": 10,
    }
    nothing = {**rule, "resources": ["podtemplates"]}
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                **common,
                "name": "url.test.io",
                "clientConfig": {"url": f"https://localhost:{port}/mutate"},
                "rules": [rule],
            },
            {
                **common,
                "name": "service.test.io",
                "clientConfig": {"service": {"name": SERVICE, "namespace": namespace}},
                "rules": [nothing],
            },
            {
                **common,
                "name": "other.test.io",
                "clientConfig": {"service": {"name": "other", "namespace": namespace}},
                "rules": [nothing],
            },
        ],
    }


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
