"""Pods made all the time by several clients, to see whether one is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.client import RefusedError
from tests.harness.waiting import eventually
from tests.operator.pods import Pod, Space

CLIENTS = 3


@dataclass
class Load:
    """What became of the pods: dry runs, which go the whole way but are not stored."""

    space: Space
    cluster: str
    injected: int = 0
    faults: list[str] = field(default_factory=list)

    def one(self) -> None:
        """Make one pod."""
        try:
            pod = Pod(self.space.admin.post(f"{self.space.at('Pod')}?dryRun=All", self._body()))
        except RefusedError as error:
            self.faults.append(str(error))
            return
        if pod.is_injected:
            self.injected += 1
        else:
            self.faults.append("without a collector")

    def await_more(self, count: int) -> None:
        """Wait for so many more pods."""
        wanted = self.injected + count
        eventually(f"{count} more pods", lambda: self.injected >= wanted)

    def _body(self) -> dict[str, Any]:
        labels = {"ray.io/cluster": self.cluster, "ray.io/node-type": "worker"}
        return {
            "kind": "Pod",
            "metadata": {"generateName": "load-", "labels": labels},
            "spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.55.1"}]},
        }


@contextmanager
def pod_load(space: Space, cluster: str) -> Iterator[Load]:
    """Make pods of a RayCluster until the end of the block."""
    load, ended = Load(space, cluster), threading.Event()

    def client() -> None:
        while not ended.is_set():
            load.one()

    threads = [threading.Thread(target=client, daemon=True) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        ended.set()
        for thread in threads:
            thread.join(30)
