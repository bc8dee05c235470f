"""/healthz, /readyz and /metrics: plain HTTP on a port of its own, apart from the reviews.

Reviews may be many and slow without a probe failing, and the reviews' port shows nothing.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from webhook.metrics import WebhookMetrics

_log = logging.getLogger("webhook.health")

STALL_S = 5
"""So long a client may stand still."""
MAX_CONNECTIONS = 32
"""At the same time; more are closed at once."""


class Readiness:
    """Whether reviews should come here: nothing has a problem, and the end has not begun."""

    def __init__(self, checks: Mapping[str, Callable[[], str]]) -> None:
        self._checks = checks
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Say no from now on. Called from a signal handler: takes no lock that others hold."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Whether the end has begun."""
        return self._stopping.is_set()

    def problems(self) -> dict[str, str]:
        """What is wrong now, by check; empty when ready."""
        found = {"stopping": "the end has begun"} if self.is_stopping else {}
        for name, check in self._checks.items():
            problem = check()
            if problem:
                found[name] = problem
        return found

    def is_ready(self) -> bool:
        """Whether /readyz says yes."""
        return not self.problems()


class HealthServer:
    """Serves the three paths in threads of its own."""

    def __init__(
        self, *, address: str, port: int, readiness: Readiness, metrics: WebhookMetrics
    ) -> None:
        metrics.watch_ready(readiness.is_ready)
        handler = _handler(readiness, metrics)
        kind = _Server6 if ":" in address else _Server
        self._server = kind((address, port), handler)

    @property
    def port(self) -> int:
        """Where it listens; of use when 0 was asked for."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Serve from now on."""
        threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="health", daemon=True
        ).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
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
        del request, client_address
        _log.debug("a probe's connection ended early", exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


def _handler(readiness: Readiness, metrics: WebhookMetrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = STALL_S

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/healthz":
                self._send(200, b"ok\n")
            elif path == "/readyz":
                problems = readiness.problems()
                lines = [f"{name}: {problem}" for name, problem in problems.items()] or ["ok"]
                self._send(503 if problems else 200, "\n".join([*lines, ""]).encode())
            elif path == "/metrics":
                body, content_type = metrics.page()
                self._send(200, body, content_type)
            else:
                self._send(404, b"there is /healthz, /readyz and /metrics\n")

        def do_HEAD(self) -> None:
            self.do_GET()

        def _send(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def version_string(self) -> str:
            return "webhook"

        def log_message(self, *args: Any) -> None:
            """Probes are not logged."""

    return Handler
