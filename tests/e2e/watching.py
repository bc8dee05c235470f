"""Watches the pods of a namespace, and keeps the last that was said of each, deleted ones too."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import urllib3

from tests.cluster.node import Node

Pod = dict[str, Any]


@dataclass
class PodWatch:
    """One watch request in a thread, begun again when it ends."""

    node: Node
    namespace: str
    seen: dict[str, Pod] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def start(cls, node: Node, namespace: str) -> PodWatch:
        """Watch until `stop`."""
        watch = cls(node, namespace)
        threading.Thread(target=watch._run, daemon=True).start()
        return watch

    def stop(self) -> None:
        """Watch no more."""
        self._stopped.set()

    def pods(self, cluster: str) -> list[Pod]:
        """The last state of each Ray pod of a cluster, by name."""
        labelled = sorted(self.seen.items())
        return [pod for _, pod in labelled if _label(pod, "ray.io/cluster") == cluster]

    def _run(self) -> None:
        relay = self.node.relay
        assert relay
        ca_file = str(self.node.folder / "pki" / "server.crt")
        pool = urllib3.PoolManager(ca_certs=ca_file)
        url = f"https://127.0.0.1:{relay.port}/api/v1/namespaces/{self.namespace}/pods"
        headers = {"Authorization": f"Bearer {self.node.tokens['admin']}"}
        while not self._stopped.wait(0.2):
            try:
                self._follow(pool.request("GET", f"{url}?watch=1&timeoutSeconds=300",
                                          headers=headers, preload_content=False))  # fmt: skip
            except (urllib3.exceptions.HTTPError, ValueError):
                continue

    def _follow(self, answer: urllib3.BaseHTTPResponse) -> None:
        rest = b""
        for chunk in answer.stream(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["object"].get("kind") == "Pod":
                    self.seen[event["object"]["metadata"]["name"]] = event["object"]
            if self._stopped.is_set():
                return


def _label(pod: Pod, name: str) -> str:
    return str(pod["metadata"].get("labels", {}).get(name, ""))


def role(pod: Pod) -> str:
    """`head` or `worker`."""
    return _label(pod, "ray.io/node-type")


def status_of(pod: Pod, container: str) -> dict[str, Any]:
    """What the kubelet says of a container, init or other; empty when it says nothing."""
    status = pod.get("status", {})
    listed = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return next((one for one in listed if one["name"] == container), {})


def started_at(status: dict[str, Any]) -> datetime | None:
    """When a container's current or last run began."""
    return _time(status, "startedAt")


def ended_at(status: dict[str, Any]) -> datetime | None:
    """When a container's run ended."""
    return _time(status, "finishedAt")


def _time(status: dict[str, Any], name: str) -> datetime | None:
    for state in status.get("state", {}).values():
        if name in state:
            return datetime.fromisoformat(state[name])
    return None
