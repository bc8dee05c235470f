"""Leads the API server's calls of Services to local ports, as kube-proxy does on a node.

Without a node nothing answers at a Service's address. The API server can be told to reach the
cluster's network through an HTTP CONNECT proxy (an egress selector); this is one, on a Unix
socket. So a webhook configuration is used as it is: its Service is looked up, its address is
dialled, and the certificate is checked for the Service's name.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import yaml

_BUFFER = 65536


class ServiceNetwork:
    """Made by `start`, ended by `close`. Addresses without a route refuse connections."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._routes: dict[str, tuple[int, ...]] = {}
        self._turns: Iterator[int] = itertools.count()
        self._server = _Server(str(folder / "network.sock"), _Handler)
        self._server.network = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @classmethod
    def start(cls, folder: Path) -> ServiceNetwork:
        """Listen in this folder; its path must be short."""
        network = cls(folder)
        network._thread.start()
        return network

    def options(self) -> list[str]:
        """What the API server is started with."""
        connection = {
            "proxyProtocol": "HTTPConnect",
            "transport": {"uds": {"udsName": str(self._folder / "network.sock")}},
        }
        path = self._folder / "egress.yaml"
        content = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }
        path.write_text(yaml.safe_dump(content))
        return [f"--egress-selector-config-file={path}"]

    def route(self, address: str, *ports: int) -> None:
        """Lead `HOST:PORT` to these local ports in turn; to none, and it refuses."""
        self._routes[address] = ports

    def connect(self, address: str) -> socket.socket:
        """A connection to where an address leads. Raises `OSError`."""
        ports = self._routes.get(address, ())
        if not ports:
            raise ConnectionRefusedError(f"nothing is at {address}")
        port = ports[next(self._turns) % len(ports)]
        return socket.create_connection(("127.0.0.1", port), timeout=5)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    network: ServiceNetwork


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        request = self.rfile.readline(_BUFFER).decode()
        while self.rfile.readline(_BUFFER).strip():
            pass
        try:
            there = self.server.network.connect(request.split()[1])
        except (OSError, IndexError):
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        there.settimeout(None)
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with there:
            back = threading.Thread(target=_pump, args=(there, self.connection), daemon=True)
            back.start()
            _pump(self.connection, there)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Copy until one side is closed; then close both directions."""
    with contextlib.suppress(OSError):
        while data := source.recv(_BUFFER):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
