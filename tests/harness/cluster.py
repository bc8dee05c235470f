"""A real Ray cluster with a collector beside each node, as one object."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from demo.collector import READY_URL, Cluster, start_collector
from demo.namespace import Namespace, Process
from demo.progress import DemoError
from demo.ray_head import (
    DASHBOARD_PORT,
    DASHBOARD_URL,
    RAY_TEMP_DIR,
    environment,
    ray_command,
    start_head,
    start_worker,
)
from demo.session import session_name, stop, tail, wait_for, wait_until_ray_blocks
from tests.harness.network import Switch

REPOSITORY = Path(__file__).parents[2]
CLUSTER = Cluster(name="demo")
JOB_TIMEOUT_S = 900.0
JOIN_TIMEOUT_S = 120.0
# The collectors ask every ten seconds, and believe that something vanished when told three times.
SETTLE_S = 35.0
NODES_SCRIPT = f"""
import json, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
answer = json.load(opener.open("{DASHBOARD_URL}/api/v0/nodes"))
print(len(answer["data"]["result"]["result"]))
"""


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its namespace, its folder and its two processes."""

    namespace: Namespace
    folder: Path
    ray: Process
    collector: Process


@dataclass(slots=True)
class RealCluster:
    """Head, and workers that join it. `folder` holds everything; `storage` is the bucket."""

    folder: Path
    switch: Switch
    nodes: list[Node] = field(default_factory=list)

    @classmethod
    def start(cls, folder: Path, *, workers: int = 0) -> RealCluster:
        """Start all nodes and wait until they have joined."""
        cluster = cls(folder, Switch.start())
        try:
            (folder / "logs").mkdir(parents=True, exist_ok=True)
            cluster.storage.mkdir(exist_ok=True)
            cluster._start_node(1)
            for number in range(2, 2 + workers):
                cluster._start_node(number)
        except BaseException:
            cluster.close()
            raise
        return cluster

    @property
    def storage(self) -> Path:
        """The local backend's folder."""
        return self.folder / "tree"

    @property
    def head(self) -> Node:
        """The node with the dashboard."""
        return self.nodes[0]

    @property
    def session(self) -> str:
        """The session's name."""
        return session_name(self.head.folder / "ray")

    def log(self, name: str) -> Path:
        """The file for a process's output."""
        return self.folder / "logs" / f"{name}.log"

    def process_logs(self) -> list[Path]:
        """What a failing test shows."""
        return sorted((self.folder / "logs").glob("*.log"))

    def _start_node(self, number: int) -> None:
        folder = self.folder / f"node{number}"
        for part in ("ray", "collector"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        namespace, address = self.switch.node(number, binds=[(folder / "ray", RAY_TEMP_DIR)])
        head_address = address if number == 1 else self._address(1)
        collector = start_collector(
            namespace,
            role="Head" if number == 1 else "Worker",
            cluster=CLUSTER,
            storage=self.storage,
            work_dir=folder / "collector",
            log=self.log(f"collector{number}"),
            head=DASHBOARD_URL if number == 1 else f"http://{head_address}:{DASHBOARD_PORT}",
        )
        log = self.log(f"ray{number}")
        if number == 1:
            ray = start_head(namespace, log=log, cwd=REPOSITORY, address=address)
        else:
            ray = start_worker(
                namespace, log=log, cwd=REPOSITORY, address=address, head=head_address
            )
        self.nodes.append(Node(namespace, folder, ray, collector))
        if number == 1:
            wait_for(namespace, f"{DASHBOARD_URL}/api/jobs/", ray, log)
        else:
            self._wait_joined(number, ray, log)
        wait_until_ray_blocks(ray, log)
        wait_for(namespace, READY_URL, collector, self.log(f"collector{number}"))

    def _wait_joined(self, count: int, ray: Process, log: Path) -> None:
        """Wait until the head counts this node; a worker that ended ends the wait."""
        deadline = time.monotonic() + JOIN_TIMEOUT_S
        while time.monotonic() < deadline and ray.running() and self.head.ray.running():
            done = self.head.namespace.run([sys.executable, "-c", NODES_SCRIPT])
            if done.returncode == 0 and int(done.stdout) >= count:
                return
            time.sleep(1.0)
        raise DemoError(f"the worker node did not join; the end of {log}:\n{tail(log)}")

    @staticmethod
    def _address(number: int) -> str:
        return f"10.77.0.{number}"

    def submit(self, script: Path, *, submission_id: str, runtime_env: str = "{}") -> int | None:
        """Run a job to its end; answers the exit status of `ray job submit`."""
        command = [
            *(ray_command(), "job", "submit", "--address", DASHBOARD_URL),
            *("--submission-id", submission_id, "--runtime-env-json", runtime_env),
            *("--", "python", str(script)),
        ]
        with self.log(submission_id).open("ab") as output:
            job = self.head.namespace.popen(command, env=environment(), output=output)
        return job.wait(JOB_TIMEOUT_S)

    def run_on_head(self, arguments: Sequence[str], *, timeout_s: float = 120.0) -> str:
        """Run Python with `arguments` beside the head; answers its output."""
        done = self.head.namespace.run(
            [sys.executable, *arguments], cwd=REPOSITORY, env=dict(os.environ), timeout_s=timeout_s
        )
        if done.returncode:
            raise RuntimeError(f"{arguments}: status {done.returncode}\n{done.stderr[-3000:]}")
        return done.stdout

    def capture(self, path: Path) -> None:
        """What the live dashboard answers to everything that UI and command line ask."""
        module = ("-m", "tests.fidelity.asking")
        self.run_on_head([*module, DASHBOARD_URL, str(path), str(SETTLE_S)], timeout_s=300)

    def stop(self) -> None:
        """SIGTERM to all, as when Kubernetes deletes the RayCluster; wait for the drain."""
        processes = [process for node in self.nodes for process in (node.ray, node.collector)]
        stop(processes, names=["a node"] * len(processes), logs=self.folder / "logs")

    def kill_ray(self) -> None:
        """SIGKILL to the head's `ray start`: an unclean end."""
        self.head.ray.signal(signal.SIGKILL)

    def close(self) -> None:
        """End everything at once."""
        self.switch.close()

    def discard_ray_files(self) -> None:
        """Delete Ray's own files: what was not stored is gone, as with a deleted pod."""
        for node in self.nodes:
            shutil.rmtree(node.folder, ignore_errors=True)
