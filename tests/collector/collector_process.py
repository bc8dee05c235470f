"""A real collector process on a Ray directory made by the test."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from storage.wire import NodeManifest, SessionEnd, decode_manifest, decode_session_end
from tests.collector.events import NODE, SESSION

WAIT_S = 20.0


def wait_for(what: str, check: Callable[[], Any], *, timeout_s: float = WAIT_S) -> Any:
    """Call `check` until it returns something true; fail with `what` when it never does."""
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        result = check()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"did not happen in {timeout_s} s: {what}")


class RayDouble:
    """Ray's temporary directory with sessions, and a raylet's socket; no Ray in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._raylets: dict[str, socket.socket] = {}

    def start(self, session: str = SESSION, node_id: str = NODE, *, head: bool = True) -> Path:
        """A session with a live raylet, as Ray makes it; the newest."""
        directory = self.root / session
        (directory / "logs").mkdir(parents=True, exist_ok=True)
        (directory / "sockets").mkdir(exist_ok=True)
        self.raylet(session)
        for name in ("metrics_agent", *(["gcs_server"] if head else [])):
            (directory / f"{name}_port_{node_id}").write_text("1")
        self.log("raylet.out", "raylet started\n", session=session)
        link = self.root / "session_latest"
        link.unlink(missing_ok=True)
        link.symlink_to(directory)
        return directory

    def raylet(self, session: str = SESSION) -> None:
        """Bring the raylet up."""
        path = self.root / session / "sockets" / "raylet"
        path.unlink(missing_ok=True)
        raylet = socket.socket(socket.AF_UNIX)
        raylet.bind(os.path.relpath(path))
        raylet.listen(100)
        self._raylets[session] = raylet

    def kill(self, session: str = SESSION) -> None:
        """The raylet dies; its socket file stays."""
        self._raylets.pop(session).close()

    def log(self, name: str, text: str, *, session: str = SESSION) -> None:
        """Append to a log."""
        with (self.root / session / "logs" / name).open("a") as file:
            file.write(text)

    def close(self) -> None:
        """End all raylets."""
        for raylet in self._raylets.values():
            raylet.close()


class CollectorProcess:
    """One run of `python -m collector`.

    Args:
        ray: the Ray directory.
        store: the directory of the local backend.
        output: where its stdout and stderr go.
        options: more options.

    """

    def __init__(self, ray: RayDouble, store: Path, output: Path, *options: str) -> None:
        store.mkdir(exist_ok=True)
        self._output = output
        self._file: BinaryIO = output.open("ab")
        self._start = output.stat().st_size
        defaults = {
            "--storage-backend": "local",
            "--storage-local-dir": str(store),
            "--ray-cluster-name": "c1",
            "--ray-cluster-namespace": "ml",
            "--ray-tmp-dir": str(ray.root),
            "--events-port": "0",
            "--metrics-port": "0",
            # Nothing listens here: the dashboard is not part of these tests.
            "--ray-dashboard-address": "http://127.0.0.1:9",
        }
        given = dict(option.split("=", 1) for option in options)
        argv = [f"{name}={value}" for name, value in (defaults | given).items()]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "collector", *argv],
            stdout=self._file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LOG_LEVEL": "info"},
        )

    def messages(self) -> list[dict[str, Any]]:
        """What it logged."""
        with self._output.open("rb") as file:
            file.seek(self._start)
            lines = file.read().splitlines()
        return [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]

    def wait_message(self, message: str, *, timeout_s: float = WAIT_S, **fields: Any) -> Any:
        """The first log line with this message and these fields."""

        def found() -> dict[str, Any] | None:
            for line in self.messages():
                if line["message"] == message and fields.items() <= line.items():
                    return line
            if self.process.poll() is not None:
                raise AssertionError(f"the collector ended with {self.process.returncode}")
            return None

        return wait_for(message, found, timeout_s=timeout_s)

    @cached_property
    def url(self) -> str:
        """Where it takes events; waits until it does."""
        line = self.wait_message("listening", what="events")
        return f"http://127.0.0.1:{line['port']}"

    def post(self, body: bytes) -> int:
        """Post a body as Ray does; the status."""
        request = urllib.request.Request(
            f"{self.url}/v1/events", data=body, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def metric(self, name: str) -> float:
        """A metric without labels."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"rayhistory_collector_{name} "):
                    return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name}")

    def rss_bytes(self) -> int:
        """The most memory that it had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def stop(self, *, timeout_s: float = 40.0) -> float:
        """SIGTERM and wait; how long it took. It must end with 0."""
        start_s = time.monotonic()
        self.terminate()
        status = self.process.wait(timeout_s)
        assert status == 0, f"ended with {status}"
        return time.monotonic() - start_s

    def kill(self) -> None:
        """SIGKILL, as the kubelet or the kernel does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self._file.close()


class Stored:
    """What is in the bucket."""

    def __init__(self, store: Path) -> None:
        self.root = store

    def history(self, session: str = SESSION) -> Path:
        """Our tree of a session."""
        return self.root / "history/v1/sessions/ml/c1" / session

    def data(self, session: str = SESSION, node_id: str = NODE) -> Path:
        """KubeRay's tree of a node."""
        return self.root / "cluster-history/raycluster/ml/c1" / session / node_id

    def event_ids(self, session: str = SESSION, node_id: str = NODE) -> Counter[str]:
        """Ids of the events in cold files, with how often each is there."""
        found: Counter[str] = Counter()
        for path in self.data(session, node_id).glob("*_events/**/*.jsonl.gz"):
            with gzip.open(path) as file:
                for line in file:
                    found[json.loads(line)["eventId"]] += 1
        return found

    def log(self, name: str, session: str = SESSION, node_id: str = NODE) -> str:
        """A final log."""
        return (self.data(session, node_id) / "logs" / name).read_text()

    def manifest(self, session: str = SESSION, node_id: str = NODE) -> NodeManifest:
        """A node's manifest."""
        path = self.history(session) / "nodes" / node_id / "manifest.json"
        return decode_manifest(path.read_bytes())

    def end(self, session: str = SESSION) -> SessionEnd | None:
        """How the session ended, if it did."""
        path = self.history(session) / "end.json"
        return decode_session_end(path.read_bytes()) if path.exists() else None
