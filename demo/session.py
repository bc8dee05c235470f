"""One Ray session from start to death, collected."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from demo.collector import LIVE_URL, READY_URL, Cluster, start_collector
from demo.data_dir import DataDir
from demo.namespace import Namespace, Process
from demo.progress import DemoError, Progress
from demo.ray_head import DASHBOARD_URL, RAY_TEMP_DIR, environment, ray_command
from demo.ray_head import start_head as start_ray_head

HERE = Path(__file__).parent
SUBMISSION_ID = "demo-job"
START_TIMEOUT_S = 180.0  # a busy machine; a process that ends ends the wait
JOB_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 45.0
# The collector polls the dashboard; the job's final state shall be in its last snapshot.
SETTLE_S = 3.0
STARTS = 3
BUSY = (
    "Ray's parts wait only 30 s for each other at their start: if this machine is busy, try "
    "again when it is less so."
)
BLOCKS = "This command will now block forever"
BLOCKS_TIMEOUT_S = 180.0
STAYS_S = 3.0  # `ray start --block` looks after its children every second


@dataclass(frozen=True, slots=True)
class Started:
    """A running head with its collector."""

    namespace: Namespace
    head: Process
    collector: Process


def run_session(data: DataDir, cluster: Cluster, progress: Progress) -> str:
    """Run everything up to Ray's death and the collector's end; answers the session's name."""
    with progress.step("starting Ray and the collector"):
        started = start(data, cluster, progress)
    try:
        with progress.step("running the sample job (its output is in logs/job.log)"):
            submit_job(started.namespace, data.log("job"), ["python", "sample_job.py"])
            time.sleep(SETTLE_S)
        session = session_name(data.ray)
        with progress.step("stopping Ray; the collector stores the rest"):
            names = ["Ray", "the collector"]
            stop([started.head, started.collector], names=names, logs=data.logs)
        return session
    finally:
        started.namespace.close()


def start(data: DataDir, cluster: Cluster, progress: Progress) -> Started:
    """Start head and collector; again when Ray gave up."""
    for _ in range(STARTS - 1):
        try:
            return _start_once(data, cluster)
        except DemoError as error:
            reason = str(error).partition("; the end of")[0]
            progress.say(f"Ray did not start ({reason}); trying again")
        data.begin_run()
    try:
        return _start_once(data, cluster)
    except DemoError as error:
        raise DemoError(f"{error}\n{BUSY}") from error


def _start_once(data: DataDir, cluster: Cluster) -> Started:
    namespace = Namespace.start(binds=[(data.ray, RAY_TEMP_DIR)])
    try:
        collector = start_collector(
            namespace,
            role="Head",
            cluster=cluster,
            storage=data.storage,
            work_dir=data.collector,
            log=data.log("collector"),
        )
        wait_for(namespace, LIVE_URL, collector, data.log("collector"))
        head = start_ray_head(namespace, log=data.log("ray"), cwd=HERE)
        wait_for(namespace, f"{DASHBOARD_URL}/api/jobs/", head, data.log("ray"))
        wait_until_ray_blocks(head, data.log("ray"))
        wait_for(namespace, READY_URL, collector, data.log("collector"))
    except BaseException:
        namespace.close()
        raise
    return Started(namespace, head, collector)


def wait_for(namespace: Namespace, url: str, process: Process, log: Path) -> None:
    """Wait until `url` answers inside; a process that ended meanwhile ends the wait."""
    probe = namespace.popen(
        [sys.executable, "-I", str(HERE / "wait_for.py"), url, str(START_TIMEOUT_S)]
    )
    while probe.running():
        if not process.running():
            raise DemoError(f"a process ended at its start; the end of {log}:\n{tail(log)}")
        time.sleep(0.1)
    if probe.wait(1) != 0:
        raise DemoError(f"{url} does not answer; the end of {log}:\n{tail(log)}")


def wait_until_ray_blocks(ray: Process, log: Path) -> None:
    """Wait until `ray start --block` has started all its parts, and all of them stay.

    The dashboard answers before the raylet is up, and Ray's client server may give up later.
    """
    deadline = time.monotonic() + BLOCKS_TIMEOUT_S
    while BLOCKS not in log.read_text(errors="replace"):
        if not ray.running() or time.monotonic() > deadline:
            raise DemoError(f"Ray did not start; the end of {log}:\n{tail(log)}")
        time.sleep(0.2)
    if ray.wait(STAYS_S) is not None:
        raise DemoError(f"Ray ended just after its start; the end of {log}:\n{tail(log)}")


def submit_job(
    namespace: Namespace,
    log: Path,
    entrypoint: list[str],
    *,
    submission_id: str = SUBMISSION_ID,
    runtime_env: str = '{"env_vars": {"STAGE": "demo"}}',
) -> None:
    """Submit a job with Ray's own command, and follow it to its end."""
    command = [
        *(ray_command(), "job", "submit", "--address", DASHBOARD_URL),
        *("--submission-id", submission_id, "--runtime-env-json", runtime_env),
        *("--", *entrypoint),
    ]
    with log.open("ab") as output:
        job = namespace.popen(command, env=environment(), cwd=HERE, output=output)
    status = job.wait(JOB_TIMEOUT_S)
    if status != 0:
        outcome = "did not end in time" if status is None else "failed"
        raise DemoError(f"the sample job {outcome}; the end of {log}:\n{tail(log)}")


def session_name(ray_dir: Path) -> str:
    """The session that Ray runs, told by the link that it makes."""
    return (ray_dir / "session_latest").readlink().name


def stop(processes: list[Process], *, names: list[str], logs: Path) -> None:
    """SIGTERM to all at once, as Kubernetes does with the containers of a pod; wait for all."""
    for process in processes:
        process.signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for name, process in zip(names, processes, strict=True):
        if process.wait(max(0.1, deadline - time.monotonic())) is None:
            raise DemoError(f"{name} did not end within {STOP_TIMEOUT_S:.0f} s; logs in {logs}")


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a process's output."""
    try:
        text = subprocess.run(
            ["tail", "-n", str(lines), str(log)], capture_output=True, text=True, check=False
        ).stdout
    except OSError:
        return "(no output)"
    return text.rstrip() or "(no output)"
