"""A private network, PID and mount namespace in which a real Ray may run.

Ray listens on every interface it finds, whatever addresses it is given, and `ray stop` kills by
pattern over every process it can see. A namespace with loopback only limits both. Ending the
namespace's first process ends everything inside.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

INIT = Path(__file__).with_name("namespace_init.py")
START_TIMEOUT_S = 15.0


class NamespaceError(Exception):
    """Namespaces cannot be made here; the message says what to do."""


def _processes() -> dict[int, int]:
    """Parent of each process we can see, by pid."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return parents


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, nearest first."""
    parents = _processes()
    found = [pid]
    for known in found:
        found.extend(child for child, parent in parents.items() if parent == known)
    return found[1:]


def _own_namespace_pid(pid: int) -> int | None:
    """The pid that the process has in its own PID namespace."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return None


@dataclass
class Namespace:
    """A running namespace; make one with `start`, end it with `close`."""

    starter: subprocess.Popen[str]
    init_pid: int
    as_user: bool
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    def start(
        cls, *, binds: Sequence[tuple[Path, Path]] = (), inside: Namespace | None = None
    ) -> Namespace:
        """Make a namespace; `inside` another one it dies together with it."""
        missing = [tool for tool in ("unshare", "nsenter", "setpriv") if not shutil.which(tool)]
        if missing:
            raise NamespaceError(f"{', '.join(missing)} not found: install util-linux")
        as_user = os.geteuid() != 0
        prefix = inside.enter() if inside else []
        own_user = ["-U", "-r"] if as_user and not inside else []
        command = [*prefix, "unshare", *own_user, "-n", "-p", "-f", "--mount-proc"]
        pairs = [str(path) for pair in binds for path in pair]
        starter = subprocess.Popen(
            [*command, "--", sys.executable, "-I", str(INIT), *pairs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C at the terminal is ours to handle
        )
        assert starter.stdout
        if starter.stdout.readline().strip() != "ready":
            raise NamespaceError(_refusal(starter, as_user=as_user))
        return cls(starter=starter, init_pid=_find_init(starter.pid), as_user=as_user)

    def enter(self) -> list[str]:
        """The command prefix that runs a command inside."""
        user = ["-U", "--preserve-credentials"] if self.as_user else []
        return ["nsenter", "-t", str(self.init_pid), "-n", "-p", "-m", *user, "--"]

    def popen(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path = Path("/"),
        output: IO[bytes] | int = subprocess.DEVNULL,
    ) -> Process:
        """Start a command inside; stdout and stderr go to `output`."""
        # nsenter changes to the namespace's root; `env -C` brings us to the wanted folder.
        entered = subprocess.Popen(
            [*self.enter(), "env", "-C", str(cwd), *command],
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.children.append(entered)
        return Process(entered)

    def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path = Path("/"),
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside to its end, with its output."""
        return subprocess.run(
            [*self.enter(), "env", "-C", str(cwd), *command],
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def close(self) -> None:
        """End every process inside, at once, and wait until they are gone."""
        try:
            os.kill(self.init_pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        for child in self.children:
            _reap(child)
        _reap(self.starter)
        for stream in (self.starter.stdin, self.starter.stdout, self.starter.stderr):
            if stream:
                stream.close()


@dataclass(frozen=True)
class Process:
    """A command that runs inside a namespace, seen from outside."""

    entered: subprocess.Popen[bytes]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command itself (not to nsenter, which would not pass it on)."""
        for pid in descendants(self.entered.pid)[:1]:
            os.kill(pid, number)

    def wait(self, timeout_s: float) -> int | None:
        """The exit status, or None when it still runs after the time."""
        try:
            return self.entered.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def running(self) -> bool:
        """Whether the command has not ended."""
        return self.entered.poll() is None


def _reap(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Wait for a process whose namespace has ended."""
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _find_init(starter_pid: int) -> int:
    """The first process of the namespace that `unshare` has just made."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        for pid in descendants(starter_pid):
            if _own_namespace_pid(pid) == 1:
                return pid
        time.sleep(0.05)
    raise NamespaceError("the namespace's first process was not found under /proc")


def _refusal(starter: subprocess.Popen[str], *, as_user: bool) -> str:
    """Why no namespace could be made, and what helps."""
    starter.kill()
    _, complaint = starter.communicate()
    lines = complaint.strip().splitlines() or ["unshare failed"]
    advice = (
        "this system lets only root make namespaces: run as root (sudo), or allow them (sysctl "
        "user.max_user_namespaces=10000, kernel.unprivileged_userns_clone=1 or, on Ubuntu, "
        "kernel.apparmor_restrict_unprivileged_userns=0)"
        if as_user
        else "in a container, it must be started with the right to make namespaces "
        "(for instance `docker run --privileged`)"
    )
    return f"cannot make a private namespace for Ray ({lines[-1]}): {advice}"
