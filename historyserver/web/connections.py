"""gunicorn's threaded worker, made fit for slow clients and for our shape of errors.

A thread serves one request at a time, and gunicorn waits without a limit for the rest of a
request's head and for a client that does not read its answer: sixteen such clients would stop
the server, probes too. So a socket gives up when nothing moved for a while, and a head must be
there in time. What gunicorn refuses before the app sees it is told in our JSON shape.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import threading
import time
from typing import Any

import msgspec
from gunicorn.http import errors  # type: ignore[import-untyped]
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

from historyserver.api.errors import ErrorCode, error_body

log = logging.getLogger(__name__)

STALL_S = 10
"""So long a socket may stand still, while it is read or written."""

HEAD_S = 10
"""So long the head of a request may take to arrive."""

_STALL = struct.pack("ll", STALL_S, 0)
_WATCH_S = 2

_REFUSED: tuple[tuple[type[Exception], int, str], ...] = (
    (errors.LimitRequestLine, 414, "the address is too long"),
    (errors.LimitRequestHeaders, 431, "the request's headers are too large; perhaps its cookies"),
    (errors.UnsupportedTransferCoding, 501, "this transfer coding is not known"),
    (errors.ExpectationFailed, 417, "this expectation cannot be met"),
    (errors.ParseException, 400, "the request is not HTTP as this server reads it"),
)
"""The first that fits."""
_REASONS = {
    400: "Bad Request",
    414: "URI Too Long",
    417: "Expectation Failed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
}


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn is not typed
    """A worker that no slow client can hold."""

    def init_process(self) -> None:
        """Start to serve; returns when the worker ends."""
        self._heads: dict[Any, float] = {}
        threading.Thread(target=self._watch_heads, name="heads", daemon=True).start()
        super().init_process()

    def handle(self, conn: Any) -> Any:
        """Serve the next request of a connection."""
        with contextlib.suppress(OSError):  # gone already: then reading says so
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _STALL)
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _STALL)
        self._heads[conn] = time.monotonic() + HEAD_S
        try:
            return super().handle(conn)
        finally:
            self._heads.pop(conn, None)

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Answer a request whose head is there."""
        self._heads.pop(conn, None)
        return super().handle_request(req, conn)

    def _watch_heads(self) -> None:
        while True:
            time.sleep(_WATCH_S)
            now_s = time.monotonic()
            for conn, due_s in list(self._heads.items()):
                if now_s >= due_s:
                    with contextlib.suppress(OSError):
                        conn.sock.shutdown(socket.SHUT_RD)  # its thread reads an end

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        """Tell why gunicorn did not pass a request on."""
        del req, addr
        status, code, text = 500, ErrorCode.INTERNAL, "the server failed to answer"
        ours = isinstance(exc, errors.InvalidResponseHeader | errors.InvalidResponseHeaderName)
        for kind, refused_status, why in _REFUSED:
            if isinstance(exc, kind) and not ours:
                status, code, text = refused_status, ErrorCode.BAD_REQUEST, why
                break
        if status == 500:
            log.error("a request failed outside of the app", exc_info=exc)
        else:
            fields = {"reason": type(exc).__name__, "detail": str(exc)[:200]}
            log.info("refused a request", extra=fields)
        body = msgspec.json.encode(error_body(code, text))
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nConnection: close\r\n"
            f"Content-Type: application/json; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\r\n"
        )
        with contextlib.suppress(OSError):
            client.sendall(head.encode("ascii") + body)
