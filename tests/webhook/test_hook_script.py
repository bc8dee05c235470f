"""The node-id hook, run by real shells beside a process whose arguments are a raylet's."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demo.namespace import Namespace
from webhook.patches.hook_script import MARK, command

NODE_ID = "0123456789abcdef" * 3 + "01234567"
SLEEPS = "import time; time.sleep(120)"
FILES = ("raylet_node_id", "alibabacloud_raylet_node_id")
TOOLS = ("cat", "tr", "sed", "head", "mv", "date", "sleep", "sh", "env")


@pytest.fixture
def private(namespaces: None) -> Iterator[Namespace]:
    """A PID namespace: the hook must see the raylet of the test only."""
    del namespaces
    namespace = Namespace.start()
    yield namespace
    namespace.close()


@pytest.fixture(params=["sh", "bash", "busybox"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """A shell, and a PATH on which its tools are; busybox's tools are its own."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} not found: install it (Debian: busybox-static)")
    if request.param != "busybox":
        return {"shell": program, "PATH": os.environ["PATH"]}
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(program)
    return {"shell": str(tools / "sh"), "PATH": str(tools)}


def hook(shell: dict[str, str], root: Path, user_argv: list[str] | None = None) -> list[str]:
    """The hook's command as the kubelet runs it, by the shell under test."""
    argv = command(str(root), user_argv or [])
    assert argv[:2] == ["/bin/sh", "-c"]
    return ["env", f"PATH={shell['PATH']}", shell["shell"], *argv[1:]]


def start_raylet(namespace: Namespace, argument: str = f"--node_id={NODE_ID}") -> None:
    """A process with a raylet's arguments, and Ray's agents beside it."""
    for words in (
        ["raylet", "--raylet_socket_name=/tmp/ray/session_x/sockets/raylet", argument, "--x"],
        ["dashboard_agent", "--node-id=" + "f" * 56],
        ["trap", "x --node_id=" + "e" * 56, "--node_id=" + "d" * 20],
    ):
        namespace.popen([sys.executable, "-I", "-c", SLEEPS, *words])


def wait_for(condition: Callable[[], object], *, timeout_s: float = 20.0) -> bool:
    """Whether it became true in time."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def searches(namespace: Namespace) -> bool:
    """Whether the hook's search still runs."""
    seen = namespace.run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\000' '\\n'"])
    return MARK in seen.stdout.splitlines()


def test_node_id_is_written_for_both_guides(
    private: Namespace, shell: dict[str, str], tmp_path: Path
) -> None:
    """Both files, and a line in init.log; nothing is left of the writing; readable by all."""
    root = tmp_path / "ray"
    root.mkdir()
    start_raylet(private)
    done = private.run(hook(shell, root), timeout_s=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert wait_for((root / "init.log").exists)
    assert [(root / name).read_text() for name in FILES] == [f"{NODE_ID}\n"] * 2
    assert (root / "init.log").read_text().endswith(f" raylet started: {NODE_ID}\n")
    assert sorted(path.name for path in root.iterdir()) == sorted([*FILES, "init.log"])
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in root.iterdir())
    assert wait_for(lambda: not searches(private))


def test_hook_ends_at_once_and_waits_behind_ray(
    private: Namespace, shell: dict[str, str], tmp_path: Path
) -> None:
    """Raylet and folder come later; meanwhile the next container may start."""
    root = tmp_path / "ray"
    done = private.run(hook(shell, root), timeout_s=20)
    assert done.returncode == 0
    assert searches(private)
    start_raylet(private)
    time.sleep(1.5)
    root.mkdir()
    assert wait_for((root / "init.log").exists)
    assert (root / FILES[0]).read_text() == f"{NODE_ID}\n"


def test_ids_of_an_earlier_container_are_replaced(
    private: Namespace, shell: dict[str, str], tmp_path: Path
) -> None:
    """The volume outlives a restart of the Ray container; the log keeps both lines."""
    for name in FILES:
        (tmp_path / name).write_text("a" * 56)
    (tmp_path / "init.log").write_text("earlier\n")
    start_raylet(private)
    private.run(hook(shell, tmp_path), timeout_s=20)
    assert wait_for(lambda: len((tmp_path / "init.log").read_text().splitlines()) == 2)
    assert {(tmp_path / name).read_text().strip() for name in FILES} == {NODE_ID}


def test_users_command_takes_the_hooks_place(
    private: Namespace, shell: dict[str, str], tmp_path: Path
) -> None:
    """Its arguments, output and exit status are unchanged; ours runs beside it."""
    start_raylet(private)
    theirs = [
        shell["shell"],
        "-c",
        'for a; do echo "<$a>"; done; exit 7',
        "x",
        "a  b",
        "$HOME",
        "",
        "*",
    ]
    done = private.run(hook(shell, tmp_path, theirs), timeout_s=20)
    assert (done.returncode, done.stdout) == (7, "<a  b>\n<$HOME>\n<>\n<*>\n")
    assert wait_for((tmp_path / "init.log").exists)


@pytest.mark.parametrize("shell", ["sh", "bash"], indirect=True)
def test_search_is_bounded(private: Namespace, shell: dict[str, str], tmp_path: Path) -> None:
    """Without a raylet it ends by itself after 250 rounds; here they do not sleep.

    Not with busybox, whose `sleep` is a part of its shell.
    """
    tools = tmp_path / "quick"
    tools.mkdir()
    (tools / "sleep").write_text(f"#!{shell['shell']}\necho >>{tmp_path}/slept\n")
    (tools / "sleep").chmod(0o755)
    quick = {**shell, "PATH": f"{tools}:{shell['PATH']}"}
    assert private.run(hook(quick, tmp_path), timeout_s=20).returncode == 0
    assert wait_for(lambda: not searches(private), timeout_s=60)
    assert len((tmp_path / "slept").read_text()) == 250
    assert not (tmp_path / FILES[0]).exists()


def test_read_only_folder_does_not_fail_the_hook(
    private: Namespace, shell: dict[str, str], tmp_path: Path
) -> None:
    """A hook that fails would kill Ray."""
    (tmp_path / "raylet_node_id").mkdir()
    (tmp_path / ".raylet_node_id.new").mkdir()
    start_raylet(private)
    done = private.run(hook(shell, tmp_path), timeout_s=20)
    assert done.returncode == 0
    assert wait_for((tmp_path / FILES[1]).exists)
