"""Programs that a test's Kubernetes is made of: started with logs in a folder, ended with us."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

_STOP_S = 20


class Processes:
    """Running programs, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self,
        name: str,
        *command: str,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start one; its output is added to `NAME.log` in the folder."""
        parts = list(command)
        if setpriv := shutil.which("setpriv"):  # ends with us, however we end
            parts = [setpriv, "--pdeathsig=KILL", *parts]
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                parts,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=environment,
                cwd=cwd,
            )
        self._running[name] = process
        return process

    def log(self, name: str) -> Path:
        """Where a program's output is."""
        return self._folder / f"{name}.log"

    def has_ended(self, name: str) -> bool:
        """Whether it is not running any more."""
        return self._running[name].poll() is not None

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to one and to what it started."""
        os.killpg(self._running[name].pid, number)

    def end(self, name: str) -> None:
        """End one, if it runs."""
        process = self._running.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill_all(self) -> None:
        """End all at once, whatever they are doing."""
        for name in list(self._running):
            self.signal(name, signal.SIGKILL)
            self._running.pop(name).wait()

    def end_all(self) -> None:
        """End the last one first."""
        for name in reversed(list(self._running)):
            self.end(name)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
