"""/healthz, /readyz and /metrics: plain HTTP, on loopback unless told otherwise."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from certs.metrics import CertsMetrics

_STALL_S = 5
"""So long a client may stand still."""
_CONNECTIONS = 16
"""At the same time; more are closed at once."""

Check = Callable[[], str]
"""Says what is wrong; empty when nothing is."""


class HealthServer:
    """Serves the three paths in threads of its own."""

    def __init__(
        self, *, address: str, port: int, alive: Check, ready: Check, metrics: CertsMetrics
    ) -> None:
        """Raises `OSError` when the port is taken."""
        kind = _Server6 if ":" in address else _Server
        self._server = kind((address, port), _handler(alive, ready, metrics))

    @property
    def port(self) -> int:
        """Where it listens; of use when 0 was asked for."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Serve from now on."""
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.2,), name="health", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A probe's connection that ended early is no news."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _handler(alive: Check, ready: Check, metrics: CertsMetrics) -> type[BaseHTTPRequestHandler]:
    checks = {"/healthz": alive, "/readyz": ready}

    class Handler(BaseHTTPRequestHandler):
        timeout = _STALL_S

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path in checks:
                problem = checks[path]()
                self._send(503 if problem else 200, f"{problem or 'ok'}\n".encode())
            elif path == "/metrics":
                self._send(200, *metrics.page())
            else:
                self._send(404, b"there is /healthz, /readyz and /metrics\n")

        def _send(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def version_string(self) -> str:
            return "certs"

        def log_message(self, *args: Any) -> None:
            """Probes are not logged."""

    return Handler
