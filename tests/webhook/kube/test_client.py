"""The client: tokens that rotate, connections that end, errors in Kubernetes' words."""

from __future__ import annotations

import datetime
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3
import yaml
from kubernetes.config import incluster_config

from tests.webhook.kube.api_double import Answer, ApiDouble, Asked, serving
from webhook.kube.client import Api, NoClusterError, RefusedError, UnreachableError, connect


def kubeconfig(folder: Path, server: str, token: str = "first") -> Path:
    """A kubeconfig file."""
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    return path


@contextmanager
def raw_server(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Answers each connection with raw bytes and closes it; gives its address and the requests."""
    listener = socket.create_server(("127.0.0.1", 0))
    seen: list[bytes] = []

    def run() -> None:
        for answer in answers:
            connection, _ = listener.accept()
            with connection:
                seen.append(connection.recv(65536))
                connection.sendall(answer)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", seen
    finally:
        listener.close()
        thread.join(1)


def client_of(host: str) -> Api:
    """A client with no authorization."""
    return Api(host=host, pool=urllib3.PoolManager(), authorization=lambda: "")


def test_a_kubeconfig_is_used(double: ApiDouble, tmp_path: Path) -> None:
    """Outside a cluster: server and token of the file."""
    with serving(double) as served:
        api = connect(str(kubeconfig(tmp_path, served._host)))
        double.rules.append(lambda _: Answer(200, {}))
        assert api.get("/version", timeout_s=2) == b"{}"
        api.close()
    assert double.asked[0].headers["Authorization"] == "Bearer first"
    assert double.asked[0].headers["User-Agent"] == "ray-history-webhook"


@pytest.mark.parametrize("content", [None, "", "clusters: [", "kind: Config"])
def test_a_kubeconfig_that_cannot_be_used_is_said(tmp_path: Path, content: str | None) -> None:
    """One line that names the file."""
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    with pytest.raises(NoClusterError, match=r"kubeconfig .* cannot be used"):
        connect(str(path))


def test_outside_a_cluster_without_kubeconfig_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody started the webhook on a laptop."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoClusterError, match="the pod's account cannot be used"):
        connect()


def test_the_pods_token_is_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The kubelet replaces it before its hour is over; an old one gets 401."""
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    ca.write_text("a certificate")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    loader = incluster_config.InClusterConfigLoader(str(token), str(ca))
    monkeypatch.setattr(
        "webhook.kube.client._load_account",
        loader.load_and_set,
    )
    api = connect()
    assert api._authorization() == "bearer first"
    token.write_text("second")
    assert api._authorization() == "bearer first"
    loader.token_expires_at = datetime.datetime.now() - datetime.timedelta(seconds=1)  # noqa: DTZ005
    assert api._authorization() == "bearer second"


def test_a_connection_that_ended_is_asked_again_on_another() -> None:
    """The API server closes idle connections; a review must not fail for that."""
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with raw_server(b"", ok) as (host, seen):
        assert client_of(host).get("/version", timeout_s=2) == b"{}"
    assert len(seen) == 2


def test_twice_is_enough() -> None:
    """A server that always hangs up is unreachable."""
    with raw_server(b"", b"") as (host, seen), pytest.raises(UnreachableError, match="hung up"):
        client_of(host).get("/version", timeout_s=2)
    assert len(seen) == 2


def test_an_answer_that_breaks_off_is_unreachable() -> None:
    """Half an object is not an object."""
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}"
    with raw_server(half) as (host, _), pytest.raises(UnreachableError, match="broke off"):
        client_of(host).get("/version", timeout_s=2)


def test_nobody_there_is_unreachable_and_quick() -> None:
    """No retries behind our back: they would multiply the time."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        host = f"http://127.0.0.1:{closed.getsockname()[1]}"
    began_s = time.monotonic()
    with pytest.raises(UnreachableError, match="does not answer"):
        client_of(host).get("/version", timeout_s=2)
    assert time.monotonic() - began_s < 1


def test_an_error_page_of_a_proxy_is_shown(double: ApiDouble, api: Api) -> None:
    """Its beginning, when it is no Status."""
    double.rules.append(lambda _: Answer(502, b"<html>bad gateway" + b"x" * 1000))
    with pytest.raises(RefusedError, match="bad gateway") as caught:
        api.get("/version", timeout_s=2)
    assert (caught.value.status, len(caught.value.message)) == (502, 200)


def test_bodies_and_their_types(double: ApiDouble, api: Api) -> None:
    """A patch is a merge patch."""
    double.rules.append(lambda _: Answer(200, {}))
    api.post("/api/v1/things", {"a": "ü"}, timeout_s=2)
    api.patch("/api/v1/things/x", {}, timeout_s=2)
    post, patch = double.asked
    assert (post.body, post.headers["Content-Type"]) == ({"a": "ü"}, "application/json")
    assert (patch.body, patch.headers["Content-Type"]) == ({}, "application/merge-patch+json")


def test_lines_may_come_in_pieces(double: ApiDouble, api: Api) -> None:
    """An object of a watch may need several packets."""
    pieces = [b'{"a"', b":1}\n\n{", b'"b":2}\n{"unfinished']
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    with (
        raw_server(answer) as (host, _),
        client_of(host).lines("/x", query={}, accept="a", connect_s=1, idle_s=1) as lines,
    ):
        assert list(lines) == [b'{"a":1}', b'{"b":2}']
        lines.stop()


def test_a_watch_that_is_refused_says_why(double: ApiDouble, api: Api) -> None:
    """As any other call."""

    def gone(_: Asked) -> Answer:
        return Answer(410, {"message": "too old", "reason": "Expired"})

    double.rules.append(gone)
    with (
        pytest.raises(RefusedError, match=r"too old \(410 Expired\)"),
        api.lines("/x", query={"watch": "1"}, accept="a", connect_s=1, idle_s=1),
    ):
        pass
