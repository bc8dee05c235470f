"""Finding the session, the node id and whether the raylet lives."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from collector.dashboard.client import DashboardClient, DashboardCredentials
from collector.dashboard.node_list import ask_node_id, choose_node
from collector.lifecycle.discovery import Discovery
from collector.lifecycle.listeners import listen
from collector.ray_session import (
    NodeIdSource,
    Raylet,
    last_activity_ms,
    latest_session,
    local_node_id,
    node_id_of_hook_files,
    node_id_of_port_files,
    old_sessions,
    probe_raylet,
    session_of,
)
from collector.settings import read_settings
from tests.collector.events import NODE, OLD_SESSION, OTHER_NODE, SESSION


def make_session(root: Path, name: str = SESSION, *, latest: bool = True) -> Path:
    directory = root / name
    (directory / "logs").mkdir(parents=True)
    (directory / "sockets").mkdir()
    if latest:
        point_latest(root, directory)
    return directory


def point_latest(root: Path, target: Path | str) -> None:
    (root / "session_latest").unlink(missing_ok=True)
    (root / "session_latest").symlink_to(target)


def port_files(session_dir: Path, node_id: str, *, head: bool, changed_s: int = 1000) -> None:
    names = ["metrics_agent", "metrics_export", "dashboard_agent_listen", "runtime_env_agent"]
    for name in [*names, *(["gcs_server"] if head else [])]:
        path = session_dir / f"{name}_port_{node_id}"
        path.write_text("1234")
        os.utime(path, (changed_s, changed_s))


def test_the_link_tells_the_session(tmp_path: Path) -> None:
    """Absolute as Ray makes it, relative, or seen under another mount path."""
    make_session(tmp_path)
    assert latest_session(tmp_path) == SESSION
    point_latest(tmp_path, SESSION)
    assert latest_session(tmp_path) == SESSION
    point_latest(tmp_path, f"/elsewhere/ray/{SESSION}")
    assert latest_session(tmp_path) == SESSION


def test_without_a_good_link_there_is_no_session(tmp_path: Path) -> None:
    """Missing, not a session's name, or pointing to nothing."""
    assert latest_session(tmp_path) is None
    assert latest_session(tmp_path / "missing") is None
    point_latest(tmp_path, "/etc")
    assert latest_session(tmp_path) is None
    point_latest(tmp_path, SESSION)
    assert latest_session(tmp_path) is None
    (tmp_path / "session_latest").unlink()
    (tmp_path / "session_latest").mkdir()
    assert latest_session(tmp_path) is None


def test_older_sessions_are_listed(tmp_path: Path) -> None:
    """Directories of sessions before this one, not links and not other things."""
    make_session(tmp_path)
    make_session(tmp_path, OLD_SESSION, latest=False)
    (tmp_path / "session_notes").mkdir()
    (tmp_path / "session_2020-01-01_00-00-00_000000_1").symlink_to("/etc")
    assert old_sessions(tmp_path, SESSION) == [OLD_SESSION]
    assert old_sessions(tmp_path, OLD_SESSION) == []


def test_the_port_files_name_the_node(tmp_path: Path) -> None:
    """On a head as on a worker; other files do not matter."""
    directory = make_session(tmp_path)
    assert node_id_of_port_files(directory, is_head=True) is None
    (directory / "metrics_agent_port_nohex").touch()
    (directory / f"metrics_agent_port_{NODE}.tmp").touch()
    assert node_id_of_port_files(directory, is_head=True) is None
    port_files(directory, NODE, head=True)
    assert node_id_of_port_files(directory, is_head=True) == NODE
    assert node_id_of_port_files(directory, is_head=False) == NODE


def test_two_raylets_on_one_host_are_told_apart_by_role(tmp_path: Path) -> None:
    """Only the head's node has a GCS, whichever started last."""
    directory = make_session(tmp_path)
    port_files(directory, NODE, head=True, changed_s=1000)
    port_files(directory, OTHER_NODE, head=False, changed_s=2000)
    assert node_id_of_port_files(directory, is_head=True) == NODE
    assert node_id_of_port_files(directory, is_head=False) == OTHER_NODE


def test_a_restarted_container_in_the_same_session_has_the_newest_id(tmp_path: Path) -> None:
    """A worker's new raylet joins the same session with a new id; the old files stay."""
    directory = make_session(tmp_path)
    port_files(directory, NODE, head=False, changed_s=2000)
    port_files(directory, OTHER_NODE, head=False, changed_s=1000)
    assert node_id_of_port_files(directory, is_head=False) == NODE
    port_files(directory, OTHER_NODE, head=False, changed_s=3000)
    assert node_id_of_port_files(directory, is_head=False) == OTHER_NODE


@pytest.mark.parametrize("name", ["raylet_node_id", "alibabacloud_raylet_node_id"])
def test_a_hook_file_is_the_second_choice(tmp_path: Path, name: str) -> None:
    """Written by the start hooks of the guides, with a newline, maybe in capitals."""
    directory = make_session(tmp_path)
    assert local_node_id(SESSION, tmp_path, is_head=False) is None
    (tmp_path / name).write_text(f"{NODE.upper()}\n")
    assert local_node_id(SESSION, tmp_path, is_head=False) == (NODE, NodeIdSource.NODE_ID_FILE)
    port_files(directory, OTHER_NODE, head=False)
    found = local_node_id(SESSION, tmp_path, is_head=False)
    assert found == (OTHER_NODE, NodeIdSource.PORT_FILES)


def test_a_hook_file_of_an_earlier_container_is_not_believed(tmp_path: Path) -> None:
    """It is older than everything in the session; garbage is not believed either."""
    directory = make_session(tmp_path)
    (tmp_path / "raylet_node_id").write_text(NODE)
    os.utime(tmp_path / "raylet_node_id", (10, 10))
    assert local_node_id(SESSION, tmp_path, is_head=False) is None
    os.utime(directory / "logs", (5, 5))
    assert local_node_id(SESSION, tmp_path, is_head=False) is not None
    (tmp_path / "raylet_node_id").write_text("--node_id=")
    assert node_id_of_hook_files(tmp_path) is None


def test_a_pipe_in_the_place_of_a_hook_file_blocks_nothing(tmp_path: Path) -> None:
    """Ray's container can make one; the look goes on."""
    os.mkfifo(tmp_path / "raylet_node_id")
    assert node_id_of_hook_files(tmp_path) is None


def test_the_newer_hook_file_wins(tmp_path: Path) -> None:
    """When there are two."""
    (tmp_path / "raylet_node_id").write_text(NODE)
    (tmp_path / "alibabacloud_raylet_node_id").write_text(OTHER_NODE)
    os.utime(tmp_path / "raylet_node_id", (10, 10))
    assert node_id_of_hook_files(tmp_path) == OTHER_NODE


def node_list(*nodes: dict[str, object]) -> bytes:
    return json.dumps({"result": True, "data": {"result": {"result": list(nodes)}}}).encode()


def node(node_id: str, ip: str, *, state: str = "ALIVE", head: bool = False) -> dict[str, object]:
    return {"node_id": node_id, "node_ip": ip, "state": state, "is_head_node": head}


def test_the_dashboard_tells_which_node_has_this_address() -> None:
    """Alive, at the pod's address, with the pod's role; never a guess."""
    dead = node("ab" * 28, "10.0.0.2", state="DEAD")
    body = node_list(node(NODE, "10.0.0.1", head=True), node(OTHER_NODE, "10.0.0.2"), dead)
    assert choose_node(body, pod_ip="10.0.0.2", is_head=False) == OTHER_NODE
    assert choose_node(body, pod_ip="10.0.0.1", is_head=True) == NODE
    assert choose_node(body, pod_ip="10.0.0.3", is_head=False) is None
    assert choose_node(body, pod_ip="10.0.0.1", is_head=False) is None
    two = node_list(node(NODE, "10.0.0.2"), node(OTHER_NODE, "10.0.0.2"))
    assert choose_node(two, pod_ip="10.0.0.2", is_head=False) is None
    for bad in (b"", b"[]", b'{"data": null}', b'{"data": {"result": {"result": [5]}}}'):
        assert choose_node(bad, pod_ip="10.0.0.2", is_head=False) is None


def test_the_dashboard_is_asked_when_files_do_not_tell(tmp_path: Path) -> None:
    """After some seconds, with the credentials, and not again once the id is known."""
    make_session(tmp_path)
    asked: list[str] = []

    async def nodes(request: web.Request) -> web.Response:
        asked.append(request.headers.get("x-ray-authorization", ""))
        return web.Response(body=node_list(node(NODE, "10.0.0.2")))

    async def run() -> None:
        runner = await listen(
            [web.get("/api/v0/nodes", nodes)], address="127.0.0.1", port=0, what="test"
        )
        port = runner.addresses[0][1]
        clock = [100.0]
        read = read_settings(
            [
                "--ray-cluster-name=c",
                "--storage-backend=local",
                f"--ray-tmp-dir={tmp_path}",
                f"--fq-ray-ip=127.0.0.1:{port}",
                "--pod-ip=10.0.0.2",
            ],
            {},
        )
        client = DashboardClient(read.node_list_url, DashboardCredentials(token="t"))
        discovery = Discovery(read, client=client, monotonic=lambda: clock[0])
        assert await discovery.look() is None
        assert not asked
        clock[0] += 6
        found = await discovery.look()
        assert found == session_of(tmp_path, SESSION, NODE)
        clock[0] += 60
        assert await discovery.look() == found
        assert asked == ["Bearer t"]
        await runner.cleanup()
        assert await ask_node_id(client, pod_ip="x", is_head=False) is None
        await client.close()

    asyncio.run(run())


def test_a_session_stays_while_ray_replaces_the_link(tmp_path: Path) -> None:
    """And a new target is a new session, a new id in it a new node."""
    directory = make_session(tmp_path)
    port_files(directory, NODE, head=False)
    args = ["--ray-cluster-name=c", "--storage-backend=local", f"--ray-tmp-dir={tmp_path}"]

    async def run() -> None:
        read = read_settings(args, {})
        client = DashboardClient(read.node_list_url, DashboardCredentials())
        discovery = Discovery(read, client=client)
        found = await discovery.look()
        assert found == session_of(tmp_path, SESSION, NODE)
        (tmp_path / "session_latest").unlink()
        assert await discovery.look() == found
        (directory / f"metrics_agent_port_{NODE}").unlink()
        port_files(directory, OTHER_NODE, head=False, changed_s=9000)
        point_latest(tmp_path, directory)
        assert await discovery.look() == session_of(tmp_path, SESSION, OTHER_NODE)
        new = make_session(tmp_path, "session_2026-12-01_00-00-00_000000_9")
        assert await discovery.look() is None
        port_files(new, NODE, head=False)
        assert await discovery.look() == session_of(tmp_path, new.name, NODE)

    asyncio.run(run())


@contextmanager
def listening(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))
        server.listen()
        yield


def test_a_raylet_is_up_while_its_socket_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead one leaves its socket file, a second one has another name."""
    monkeypatch.chdir(tmp_path)
    directory = make_session(tmp_path)
    assert probe_raylet(directory) is Raylet.GONE
    assert probe_raylet(tmp_path / "missing") is Raylet.GONE
    with listening(directory / "sockets" / "raylet"):
        assert probe_raylet(directory) is Raylet.UP
    assert (directory / "sockets" / "raylet").exists()
    assert probe_raylet(directory) is Raylet.GONE
    with listening(directory / "sockets" / "raylet.1"):
        assert probe_raylet(directory) is Raylet.UP
    (directory / "sockets" / "raylet.1").unlink()
    (directory / "sockets" / "raylet.1").write_text("no socket")
    assert probe_raylet(directory) is Raylet.GONE


def test_the_last_change_of_a_log_tells_when_a_session_ended(tmp_path: Path) -> None:
    """For sessions whose end nobody saw."""
    directory = make_session(tmp_path)
    session = session_of(tmp_path, SESSION, NODE)
    assert last_activity_ms(session) is None
    for name, changed_s in (("a.out", 100), ("b.out", 200)):
        (directory / "logs" / name).write_text("x")
        os.utime(directory / "logs" / name, (changed_s, changed_s))
    assert last_activity_ms(session) == 200_000
    assert last_activity_ms(session_of(tmp_path, OLD_SESSION, NODE)) is None
