"""The history server as a process of its own, for tests and benchmarks."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


class Server:
    """A running server on a free port."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        try:
            self.port = self._wait()
        except AssertionError:
            self.stop()
            raise

    def lines(self) -> list[dict[str, object]]:
        """What it logged."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Ask once."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def resident_bytes(self) -> int:
        """Of all its processes; pages that they share count once."""
        total_kb = 0
        for pid in self._pids():
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            (pss,) = (line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))
            total_kb += int(pss)
        return total_kb * 1024

    def stop(self) -> None:
        """End it in order, if it has not ended."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)

    def _pids(self) -> list[int]:
        pids, at = [self.process.pid], 0
        while at < len(pids):
            children = Path(f"/proc/{pids[at]}/task/{pids[at]}/children").read_text()
            pids += [int(pid) for pid in children.split()]
            at += 1
        return pids

    def _wait(self) -> int:
        deadline_s = time.monotonic() + 60
        while time.monotonic() < deadline_s:
            assert self.process.poll() is None, self.log.read_text()
            for line in self.lines():
                if line["message"] == "listening":
                    return int(str(line["address"]).rpartition(":")[2])
            time.sleep(0.05)
        raise AssertionError(f"no server: {self.log.read_text()}")


def start_server(storage: Path, cache: Path, log: Path) -> Server:
    """Start a server on a free port over a folder of stored sessions."""
    command = [
        *(sys.executable, "-m", "historyserver", "serve", "--storage-backend=local"),
        *(f"--storage-local-dir={storage}", f"--cache-dir={cache}"),
        *("--port=0", "--stop-timeout=5s"),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    return Server(process, log)
