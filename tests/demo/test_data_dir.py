"""What the demo refuses before it starts anything."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from demo.collector import REPOSITORY
from demo.data_dir import MARKER, check_port_free, prepare
from demo.progress import DemoError


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the demo's command line."""
    return subprocess.run(
        [sys.executable, "-m", "demo", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def enter(root: Path) -> None:
    """Take a folder and leave it."""
    with prepare(root):
        pass


def refused(pattern: str) -> pytest.RaisesExc[DemoError]:
    """The refusal, one line."""
    return pytest.raises(DemoError, match=f"^[^\n]*{pattern}[^\n]*$")


def test_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """A folder with foreign files is left alone."""
    precious = tmp_path / "precious"
    precious.write_text("data")
    with refused("files that are not the demo's: choose another folder .*--data-dir"):
        enter(tmp_path)
    assert list(tmp_path.iterdir()) == [precious]


def test_second_run_keeps_stored_sessions(tmp_path: Path) -> None:
    """Storage and cache stay; what belongs to one run is emptied."""
    with prepare(tmp_path / "data") as data:
        (data.storage / "session").write_text("kept")
        (data.ray / "session_old").mkdir()
    with prepare(tmp_path / "data") as again:
        assert (again.storage / "session").exists()
        assert list(again.ray.iterdir()) == []
        assert (again.root / MARKER).exists()


def test_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    """A file cannot hold the data."""
    (tmp_path / "file").write_text("")
    with refused("is not a folder"):
        enter(tmp_path / "file")


def test_folder_of_a_running_demo_is_refused(tmp_path: Path) -> None:
    """A second demo must not empty the folders in which the first one runs."""
    with prepare(tmp_path / "data") as data:
        (data.ray / "session_running").mkdir()
        with refused("another demo uses .*--data-dir"):
            enter(tmp_path / "data")
        assert (data.ray / "session_running").exists()


def test_folder_that_cannot_be_written_is_named() -> None:
    """One line with the reason and the way out."""
    with refused("cannot write to /proc/history: .*--data-dir"):
        enter(Path("/proc/history"))


def test_folder_on_a_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray would fail after minutes, with a reason that does not tell."""
    usage = shutil.disk_usage(tmp_path)._replace(free=100 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with refused("100 MiB free, 200 are needed: .*--data-dir"):
        enter(tmp_path / "data")


def test_taken_port_is_named() -> None:
    """The message has the port and the way out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DemoError, match=rf"port {port} .*--port"):
            check_port_free(port)


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_command_refuses_what_is_no_port(port: str, tmp_path: Path) -> None:
    """Status 2 and argparse's line, before anything is made."""
    done = demo("--port", port, "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 2
    assert "--port" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "data").exists()


def test_command_refuses_a_taken_port_before_anything_is_made(tmp_path: Path) -> None:
    """One line on stderr, status 1, no folder, no Ray."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = demo("--once", "--port", str(port), "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert done.stderr.startswith(f"demo: error: port {port}")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "data").exists()
