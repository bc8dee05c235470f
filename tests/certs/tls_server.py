"""A small TLS server of admission reviews that serves from a folder of certs."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LOOKS_EVERY_S = 0.05


class ReviewServer:
    """Admits everything, and labels it, so that a call that did not happen shows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._context: ssl.SSLContext | None = None
        self._current: Path | None = None
        self._ended = threading.Event()
        self.served: set[str] = set()
        """Folders of pairs that were served."""
        self._server = _Server(self)
        self.port = int(self._server.server_address[1])
        for work in (self._server.serve_forever, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def context(self) -> ssl.SSLContext:
        """For the next handshake."""
        if self._context is None:
            raise ssl.SSLError("no certificate yet")
        return self._context

    def refresh(self) -> None:
        """Take the pair that is there now."""
        try:
            current = (self._folder / "..data").resolve(strict=True)
            if current == self._current:
                return
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(current / "tls.crt", current / "tls.key")
        except FileNotFoundError:
            return
        self._context, self._current = context, current
        self.served.add(current.name)

    def close(self) -> None:
        """End it."""
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def _watch(self) -> None:
        while not self._ended.wait(LOOKS_EVERY_S):
            self.refresh()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, owner: ReviewServer) -> None:
        self._owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(10)
        with self._owner.context().wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client tells what failed."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        patch = b'[{"op": "add", "path": "/data", "value": {"reviewed": "yes"}}]'
        response = {
            "uid": review["request"]["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": b64encode(patch).decode(),
        }
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Quiet."""
