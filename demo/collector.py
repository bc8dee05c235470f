"""The collector beside a Ray node, started as the sidecar container would be."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from demo.namespace import Namespace, Process
from demo.ray_head import DASHBOARD_URL, EVENTS_PORT, RAY_TEMP_DIR

METRICS_PORT = 8085
LIVE_URL = f"http://127.0.0.1:{METRICS_PORT}/healthz"
READY_URL = f"http://127.0.0.1:{METRICS_PORT}/readyz"
REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The names under which a session is stored."""

    name: str
    namespace: str = "default"


def start_collector(
    namespace: Namespace,
    *,
    role: str,
    cluster: Cluster,
    storage: Path,
    work_dir: Path,
    log: Path,
    head: str = DASHBOARD_URL,
) -> Process:
    """Start one collector inside the node's namespace; it drains when it gets SIGTERM."""
    command = [
        *(sys.executable, "-m", "collector"),
        *(f"--role={role}", f"--ray-cluster-name={cluster.name}"),
        f"--ray-cluster-namespace={cluster.namespace}",
        *("--storage-backend=local", f"--storage-local-dir={storage}", "--storage-root-dir="),
        *(f"--events-port={EVENTS_PORT}", f"--ray-tmp-dir={RAY_TEMP_DIR}"),
        *(f"--metrics-port={METRICS_PORT}", f"--data-dir={work_dir}"),
        f"--ray-dashboard-address={head}",
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with log.open("ab") as output:
        return namespace.popen(command, env=env, cwd=REPOSITORY, output=output)
