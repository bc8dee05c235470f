"""A port of this machine's loopback that leads to a server inside a network namespace.

So tests, kubectl, helm and a browser use a cluster that lives in its own network as they would
use any other.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_CHUNK_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Relay:
    """Listens until `close`; every connection becomes one to the target."""

    listening: socket.socket
    namespace_pid: int
    target: tuple[str, int]

    @classmethod
    def start(cls, *, namespace_pid: int, target: tuple[str, int]) -> Relay:
        """Listen on a free port; connections are made in the process's network namespace."""
        relay = cls(socket.create_server(("127.0.0.1", 0)), namespace_pid, target)
        threading.Thread(target=relay._accept, daemon=True).start()
        return relay

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        port: int = self.listening.getsockname()[1]
        return port

    def close(self) -> None:
        """Take no connection any more."""
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()

    def _accept(self) -> None:
        # Only this thread is in the other namespace; its sockets stay there.
        _enter(self.namespace_pid)
        while True:
            try:
                near, _ = self.listening.accept()
            except OSError:
                return
            far = socket.socket()
            threading.Thread(target=self._serve, args=(near, far), daemon=True).start()

    def _serve(self, near: socket.socket, far: socket.socket) -> None:
        with near, far, contextlib.suppress(OSError):
            far.connect(self.target)
            back = threading.Thread(target=_pump, args=(far, near), daemon=True)
            back.start()
            _pump(near, far)
            back.join()


def _enter(pid: int) -> None:
    with Path(f"/proc/{pid}/ns/net").open() as namespace:
        if _LIBC.setns(namespace.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK_BYTES):
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
