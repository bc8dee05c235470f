"""gunicorn's threaded worker, made fit for the API server as client, for slow clients and the end.

- A thread is given to a connection only when bytes of it are there, and only for a while: many
  connections that say nothing must not keep reviews waiting.
- After an answer the thread waits for the next review of the same connection, as long as half of
  the threads are free for others: that saves three thread switches per review.
- At SIGTERM the worker first says so (/readyz), and goes on taking connections until the API
  server has heard of it; each answer then closes its connection. Go's client cannot repeat a POST
  that it wrote to a connection which the server closes at that moment.
"""

from __future__ import annotations

import contextlib
import logging
import select
import selectors
import socket
import threading
import time
from functools import partial
from typing import Any

from gunicorn.http import errors, wsgi  # type: ignore[import-untyped]
from gunicorn.workers.gthread import TConn, ThreadWorker  # type: ignore[import-untyped]

_log = logging.getLogger("webhook.connections")

FIRST_BYTE_S = 10.0
"""So long a new connection may say nothing."""
REVIEW_S = 6.0
"""So long handshake, request and answer may take together; the API server has gone by then."""
NEXT_REVIEW_S = 1.0
"""So long a thread waits for the next review of its connection before it is free for others."""

_WATCH_S = 1.0


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn is not typed
    """The worker. `begin_stop` is called once, in the signal handler of SIGTERM."""

    def init_process(self) -> None:
        """Start to serve; returns when the worker ends."""
        self._due_s: dict[Any, float] = {}
        self._stop_at_s: float | None = None
        self._seats = threading.BoundedSemaphore(max(1, self.cfg.threads // 2))
        threading.Thread(target=self._watch, name="slow-clients", daemon=True).start()
        super().init_process()

    def handle_exit(self, sig: Any, frame: Any) -> None:
        """SIGTERM: not ready any more, but at work for `drain_s` yet."""
        if self._stop_at_s is not None:
            return
        del sig, frame
        self._stop_at_s = time.monotonic() + self.app.drain_s
        self.app.begin_stop()
        self.method_queue.defer(lambda: None)

    def notify(self) -> None:
        """Tell the master that the loop goes round; here ends the time of draining."""
        if self._stop_at_s is not None and time.monotonic() >= self._stop_at_s:
            self.alive = False
            for conn in self.pending_conns:
                conn.timeout = 0.0
        super().notify()

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Wait for events, in short steps at the end."""
        if self._stop_at_s is not None:
            timeout = min(timeout, 0.1)
        super().wait_for_and_dispatch_events(timeout)

    def accept(self, listener: Any) -> None:
        """Accept a connection; its first bytes are waited for without a thread."""
        try:
            client, address = listener.accept()
        except OSError:  # gone again, or none there
            return
        self.nr_conns += 1
        conn = TConn(self.cfg, client, address, listener.getsockname())
        conn.timeout = time.monotonic() + FIRST_BYTE_S
        self.pending_conns.append(conn)
        self.poller.register(
            client, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn)
        )

    def handle(self, conn: Any) -> Any:
        """Serve the requests of a connection that come one upon the other."""
        try:
            while True:
                self._due_s[conn] = time.monotonic() + REVIEW_S
                result = super().handle(conn)
                if result is not True or not self._is_next_there(conn):
                    return result
        finally:
            self._due_s.pop(conn, None)

    def handle_request(self, req: Any, conn: Any) -> bool:
        """Answer a request; the last of its connection when the end has begun.

        As gunicorn's own, without access log, hooks and files to send, which are not used here:
        an eighth of the time of a review.
        """
        response, environ = wsgi.create(
            req, conn.sock, conn.client, conn.server, self.cfg, response_class=_Response
        )
        environ["wsgi.multithread"] = True
        is_full = len(self.keepalived_conns) >= self.max_keepalived
        if self._stop_at_s is not None or not self.alive or is_full:
            response.force_close()
        body = self.wsgi(environ, response.start_response)
        try:
            for chunk in body:
                response.write(chunk)
            response.close()
        finally:
            getattr(body, "close", bool)()  # () is the body of an answer to HEAD
        return not response.should_close()

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        """Close without a word what is no HTTP over TLS; there is nobody to tell."""
        del req, addr
        if not isinstance(exc, errors.ParseException | OSError):
            _log.error("a request failed outside of the app", exc_info=exc)
        else:
            _log.debug("refused a connection", extra={"error": f"{type(exc).__name__}: {exc}"})
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _is_next_there(self, conn: Any) -> bool:
        if conn.sock.pending() or conn.parser.unreader.buf.getvalue():
            return True
        if self.tpool._work_queue.qsize() > 0 or not self._seats.acquire(blocking=False):
            return False  # the thread is needed elsewhere
        self._due_s.pop(conn, None)
        try:
            return _is_readable(conn.sock, NEXT_REVIEW_S)
        except (OSError, ValueError):
            return False
        finally:
            self._seats.release()

    def _watch(self) -> None:
        while True:
            time.sleep(_WATCH_S)
            now_s = time.monotonic()
            for conn, due_s in list(self._due_s.items()):
                if now_s >= due_s:
                    with contextlib.suppress(OSError):
                        conn.sock.shutdown(socket.SHUT_RDWR)  # its thread reads an end


class _Response(wsgi.Response):  # type: ignore[misc]
    """Sends head and body together: one TLS record and one system call."""

    headers_sent: bool

    def write(self, chunk: bytes) -> None:
        """Send a part of the body; the head with the first."""
        if self.headers_sent or self.chunked or self._omits_body:
            super().write(chunk)
            return
        fields = (f"{name}: {value}\r\n" for name, value in self.headers)
        head = "".join([*self.default_headers(), *fields, "\r\n"])
        self.headers_sent = True
        self.sent = len(chunk)
        self.sock.sendall(head.encode("latin-1") + chunk)


def _is_readable(sock: socket.socket, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
