"""The product on a one-node Kubernetes: installed by helm from the packaged chart."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from demo.checks import Session
from tests.chart.rendering import helm, package
from tests.cluster import build
from tests.cluster.client import RefusedError
from tests.cluster.images import PRODUCTS, TAG
from tests.cluster.node import Node
from tests.e2e.watching import PodWatch
from tests.e2e.workloads import RAY_API, Manifest, code
from tests.harness.waiting import eventually

RELEASE_NAMESPACE = "history"
LABELLED = "team-a"
"""Its label asks for collectors."""
UNLABELLED = "team-b"
ANNOTATION = "ray.alibabacloud.com/enable-historyserver"
SERVICE = "ray-history-server"
Got = TypeVar("Got")


class InstallError(Exception):
    """Helm failed; the message says what it and the cluster said."""


@dataclass
class Platform:
    """A node with the chart on it. Made by `install`."""

    node: Node
    storage: Path
    server_url: str = ""
    watches: dict[str, PodWatch] = field(default_factory=dict)
    forwarding: subprocess.Popen[str] | None = None

    @classmethod
    def install(cls, node: Node, folder: Path) -> Platform:
        """Package the chart, install it, and wait until all of it is ready."""
        platform = cls(node, folder / "storage")
        platform.storage.mkdir(mode=0o777)
        platform.storage.chmod(0o777)  # the mask above is the process's
        for name, labels in ((LABELLED, {"rayhistory.io/inject": "enabled"}), (UNLABELLED, {})):
            metadata = {"name": name, "labels": labels}
            platform.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            platform.apply(code(name))
        values = folder / "values.yaml"
        values.write_text(yaml.safe_dump(_values(platform.storage)))
        where = [f"--namespace={RELEASE_NAMESPACE}", "--create-namespace"]
        wait = ["--wait", "--timeout=180s"]
        _helm(node, "install", "history", str(package(folder)), f"--values={values}", *where, *wait)
        platform.watches = {name: PodWatch.start(node, name) for name in (LABELLED, UNLABELLED)}
        platform.forward()
        return platform

    def close(self) -> None:
        """Let go of the server; the node ends by itself."""
        for watch in self.watches.values():
            watch.stop()
        self._stop_forwarding()

    def process_logs(self) -> list[Path]:
        """Shown when a test fails."""
        return self.node.process_logs()

    def apply(self, manifest: Manifest) -> None:
        """Make an object, as `kubectl apply` does."""
        self.node.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """A Ray object, or nothing when it is gone."""
        with contextlib.suppress(RefusedError):
            path = f"/apis/{RAY_API}/namespaces/{namespace}/{kind}/{name}"
            found: Manifest = self.node.client().get(path)
            return found
        return None

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete a Ray object; its pods end by and by."""
        self.node.kubectl("delete", kind, name, f"--namespace={namespace}", "--wait=false")

    def forward(self) -> None:
        """`kubectl port-forward` to the server's Service, as the guides do."""
        self._stop_forwarding()
        command = [str(build.folder() / "kubectl"), f"--kubeconfig={self.node.kubeconfig}"]
        where = [f"--namespace={RELEASE_NAMESPACE}", f"svc/{SERVICE}", ":80"]
        self.forwarding = subprocess.Popen(
            [*command, "port-forward", *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.forwarding.stdout
        told = self.forwarding.stdout.readline()  # Forwarding from 127.0.0.1:40001 -> 8080
        self.server_url = f"http://{told.split()[2]}"

    def sessions(self, namespace: str, cluster: str) -> list[dict[str, Any]]:
        """What `/clusters` lists of a RayCluster, the oldest first."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self.server_url}/clusters", timeout=30) as answer:
                listed = json.loads(answer.read())
        except OSError:
            self.forward()  # the pod behind it is another one
            raise
        mine = [one for one in listed if (one["namespace"], one["name"]) == (namespace, cluster)]
        return sorted(mine, key=lambda one: str(one["sessionName"]))

    def ended(self, namespace: str, cluster: str, *, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many sessions of a cluster have ended in order."""

        def look() -> list[dict[str, Any]] | None:
            listed = self.sessions(namespace, cluster)
            ready = len(listed) == count and all(one["state"] == "ended" for one in listed)
            return listed if ready else None

        return self.until(f"{count} ended session(s) of {cluster}", look, timeout_s=90)

    def session(self, listed: dict[str, Any]) -> Session:
        """The API of a listed session."""
        return Session(f"{self.server_url}/{str(listed['link']).strip('/')}")

    @staticmethod
    def until(what: str, look: Callable[[], Got | None], *, timeout_s: float) -> Got:
        """Ask every half second until there is an answer."""
        return eventually(what, look, within_s=timeout_s, every_s=0.5)

    def _stop_forwarding(self) -> None:
        if self.forwarding:
            self.forwarding.kill()
            self.forwarding.wait()
            assert self.forwarding.stdout
            self.forwarding.stdout.close()


def _values(storage: Path) -> dict[str, Any]:
    """As for a cluster without a registry and with little room."""
    keys = {"collector": 0, "server": 1, "webhook": 2}
    images = {
        key: {"repository": f"localhost/{PRODUCTS[at].name}", "tag": TAG, "pullPolicy": "Never"}
        for key, at in keys.items()
    }
    little = {"requests": {"cpu": "10m", "memory": "64Mi"}}
    return {
        "images": images,
        "storage": {
            "local": {
                "source": {"hostPath": {"path": str(storage), "type": "Directory"}},
                "claimNamespaces": [LABELLED, UNLABELLED],
                "size": "1Gi",
            }
        },
        "collector": {"resources": little | {"limits": {"cpu": "1", "memory": "256Mi"}}},
        "webhook": {"replicas": 1, "resources": little},
        "server": {"resources": little},
        "tls": {"resources": little},
    }


def _helm(node: Node, *arguments: str) -> None:
    command = [helm(), f"--kubeconfig={node.kubeconfig}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    if done.returncode:
        pods = node.kubectl("get", "pods", "-A", "-o", "wide", check=False)
        events = node.kubectl("get", "events", "-A", check=False)
        raise InstallError(f"helm {arguments[0]}: {done.stderr}\n{pods}\n{events[-4000:]}")
