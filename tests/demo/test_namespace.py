"""The private namespace in which a real Ray may run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import namespace as module
from demo.namespace import Namespace, NamespaceError, descendants

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]


@pytest.fixture
def namespace(namespaces: None) -> Iterator[Namespace]:
    """A running namespace."""
    del namespaces
    made = Namespace.start()
    yield made
    made.close()


def gone(pid: int, *, within_s: float = 5.0) -> bool:
    """Whether a process ends in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.05)
    return False


def test_only_loopback_is_there(namespace: Namespace) -> None:
    """Inside, no network is reachable but loopback, which is up."""
    done = namespace.run(["cat", "/proc/net/dev"])
    interfaces = {line.split(":")[0].strip() for line in done.stdout.splitlines()[2:]}
    assert interfaces == {"lo"}
    script = "import socket; s = socket.create_server(('127.0.0.1', 0)); print('bound')"
    assert namespace.run([sys.executable, "-c", script]).stdout == "bound\n"


def test_processes_outside_are_invisible(namespace: Namespace) -> None:
    """Inside, process 1 is ours and the test's own process does not exist."""
    done = namespace.run(["sh", "-c", "cat /proc/1/cmdline | tr '\\0' ' '"])
    assert "namespace_init" in done.stdout
    assert namespace.run(["ls", f"/proc/{os.getpid()}"]).returncode != 0


def test_close_ends_every_process(namespace: Namespace) -> None:
    """Closing ends running commands and their daemons."""
    daemon = namespace.popen(["sh", "-c", "setsid sleep 50 & sleep 50"])
    time.sleep(0.3)
    inside = descendants(daemon.entered.pid)
    assert len(inside) >= 2
    namespace.close()
    assert all(gone(pid) for pid in inside)


def test_namespace_ends_when_its_starter_is_killed(namespaces: None) -> None:
    """A demo that dies by SIGKILL leaves no process behind."""
    del namespaces
    script = (
        "from demo.namespace import Namespace\n"
        "import time\n"
        "made = Namespace.start()\n"
        "made.popen(['sleep', '50'])\n"
        "print(made.init_pid, flush=True)\n"
        "time.sleep(50)\n"
    )
    root = Path(module.__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout
        init_pid = int(starter.stdout.readline())
        starter.kill()
    assert gone(init_pid)


def test_bound_folder_has_a_short_path(namespaces: None, tmp_path: Path) -> None:
    """A folder deep in the tree is shown at a short path inside, and only there."""
    del namespaces
    source = tmp_path / ("deep" * 20)
    source.mkdir()
    made = Namespace.start(binds=[(source, Path("/mnt/short"))])
    try:
        assert made.run(["touch", "/mnt/short/here"]).returncode == 0
        assert (source / "here").exists()
        assert not Path("/mnt/short").exists()
    finally:
        made.close()


def test_binding_hides_nothing_beside_it(namespaces: None, tmp_path: Path) -> None:
    """A clone, its data or Python may lie where the short path is made: all of it stays."""
    del namespaces
    top = tmp_path / "top"
    source = top / "clone" / "demo-data"
    source.mkdir(parents=True)
    (source / "stored").write_text("bytes")
    (top / "file").write_text("text")
    (top / "link").symlink_to("file")
    made = Namespace.start(binds=[(source, top / "made" / "ray")])
    try:
        script = "cat file link clone/demo-data/stored made/ray/stored; touch clone/new"
        done = made.run(["sh", "-ec", script], cwd=top)
    finally:
        made.close()
    assert (done.stdout, done.stderr) == ("texttextbytesbytes", "")
    assert (top / "clone" / "new").exists()
    assert sorted(entry.name for entry in top.iterdir()) == ["clone", "file", "link"]


def test_signal_reaches_the_command(namespace: Namespace) -> None:
    """A signal goes to the command inside, whose status comes back."""
    script = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print(flush=True); time.sleep(30)"
    process = namespace.popen([sys.executable, "-c", script], output=subprocess.PIPE)
    assert process.entered.stdout
    process.entered.stdout.readline()
    process.signal(signal.SIGTERM)
    assert process.wait(10) == 7
    process.entered.stdout.close()


def test_refusal_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where namespaces are not allowed, the message names the way out."""
    fake = tmp_path / "unshare"
    fake.write_text(
        "#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(NamespaceError, match=r"Operation not permitted.*(root|privileged)"):
        Namespace.start()
