"""A real Ray node and the settings that make it export its events."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from demo.namespace import Namespace, Process
from demo.progress import DemoError

# Inside the namespace; the data folder is bound there. The machine has no such folder (/mnt/ray
# would be somebody's), and Ray looks for `ray` in RAY_TMPDIR.
RAY_TEMP_DIR = Path("/mnt/ray-demo/ray")
GCS_PORT = 6379
DASHBOARD_PORT = 8265
EVENTS_PORT = 8084
DASHBOARD_URL = f"http://127.0.0.1:{DASHBOARD_PORT}"

# What a RayCluster must set, see "Run the parts yourself" in the README. Both names of the type
# filter: guides name the second, Ray 2.53 to 2.60 reads the first.
_AGENT = "RAY_DASHBOARD_AGGREGATOR_AGENT_"
EVENT_ENV: dict[str, str] = {
    "RAY_enable_ray_event": "true",
    "RAY_enable_core_worker_ray_event_to_aggregator": "true",
    f"{_AGENT}EVENTS_EXPORT_ADDR": f"http://localhost:{EVENTS_PORT}/v1/events",
    f"{_AGENT}EXPOSABLE_EVENT_TYPES": "ALL",
    f"{_AGENT}PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES": "ALL",
}


def environment() -> dict[str, str]:
    """The environment of every Ray process and driver: ours without foreign Ray settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        env.pop(proxy, None)
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    env["RAY_TMPDIR"] = str(RAY_TEMP_DIR.parent)
    env["RAY_USAGE_STATS_ENABLED"] = "0"
    # Parts of the dashboard wait for each other; the default of 30 s is short on a busy machine.
    env["RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT"] = "200"
    env["PYTHONUNBUFFERED"] = "1"
    return env | EVENT_ENV


def check_python(path: str) -> None:
    """Refuse an interpreter that Ray cannot start.

    Ray 2.55 hands its path to `bash -c` without quotes (`RuntimeEnvContext.exec_worker`), and its
    library's to LD_PRELOAD, where colons and spaces separate. Letters of any language are fine.
    """
    plain = "".join(character for character in path if character.isascii())
    if ":" in plain or shlex.quote(plain) != plain:
        raise DemoError(
            f"Ray cannot start a Python with a space or a character of the shell in its path "
            f"({path}): put the environment elsewhere (make demo VENV=/tmp/ray-history-venv)"
        )


def ray_command() -> str:
    """The `ray` of this Python environment."""
    beside = Path(sys.executable).parent / "ray"
    found = str(beside) if beside.exists() else shutil.which("ray")
    if not found:
        raise FileNotFoundError("ray is not installed in this Python environment")
    return found


def start_head(
    namespace: Namespace,
    *,
    log: Path,
    cwd: Path,
    address: str = "127.0.0.1",
    cpus: int = 4,
    arguments: Sequence[str] = (),
) -> Process:
    """Start a head that stays in the foreground, as the operator's pods do (`--block`)."""
    command = [
        *(ray_command(), "start", "--head", "--block"),
        *(f"--node-ip-address={address}", f"--port={GCS_PORT}"),
        *("--dashboard-host=127.0.0.1", f"--dashboard-port={DASHBOARD_PORT}"),
        *(f"--temp-dir={RAY_TEMP_DIR}", f"--num-cpus={cpus}", "--disable-usage-stats"),
        *("--log-color=false", "--object-store-memory=200000000", *arguments),
    ]
    with log.open("ab") as output:
        return namespace.popen(command, env=environment(), cwd=cwd, output=output)


def start_worker(
    namespace: Namespace, *, log: Path, cwd: Path, address: str, head: str, cpus: int = 2
) -> Process:
    """Start a worker node that joins the head."""
    command = [
        *(ray_command(), "start", "--block", f"--address={head}:{GCS_PORT}"),
        *(f"--node-ip-address={address}", f"--num-cpus={cpus}", "--disable-usage-stats"),
        "--object-store-memory=200000000",
    ]
    with log.open("ab") as output:
        return namespace.popen(command, env=environment(), cwd=cwd, output=output)
