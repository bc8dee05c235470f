"""Processes of a compile: started, asked, and ended with whoever started them.

Processes are started as `python -m MODULE`, not forked: the caller may have threads, and not
spawned by multiprocessing: that would run the caller's main module again. Each gets a socket to
be asked by, and the read end of a pipe that nobody writes to, its lifeline: the write end closes
when the caller ends, however it ends, and then the process ends at once (see `end_with`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from storage.program.logs import TextFormatter

CHILD = "historyserver.compiling.child"
"""The module of every process of a compile."""

_END_WITHIN_S = 5


class WorkerDiedError(Exception):
    """A process of the compile died."""


class CompileTimeoutError(Exception):
    """A compile took longer than it may, and was ended."""


@contextlib.contextmanager
def started(module: str) -> Iterator[Connection[Any, Any]]:
    """Start a module that serves the socket on its command line; end it afterwards."""
    ours, theirs = socket.socketpair()
    lifeline, held = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(theirs.fileno()), str(lifeline), *_logging()],
        pass_fds=(theirs.fileno(), lifeline),
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    os.close(lifeline)
    connection: Connection[Any, Any] = Connection(ours.detach())
    try:
        yield connection
    finally:
        connection.close()
        os.close(held)
        try:
            process.wait(timeout=_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _logging() -> tuple[str, str]:
    """Level and style of the log here, for `storage.program.logs.set_up` there."""
    root = logging.getLogger()
    is_text = any(isinstance(handler.formatter, TextFormatter) for handler in root.handlers)
    return logging.getLevelName(root.getEffectiveLevel()), "text" if is_text else "json"


def end_with(lifeline: int) -> None:
    """End this process as soon as whoever holds the other end of the lifeline is gone.

    Starts a thread, so it is called after the last fork.
    """
    threading.Thread(target=_end_with, args=(lifeline,), name="lifeline", daemon=True).start()


def _end_with(lifeline: int) -> None:
    os.read(lifeline, 1)  # returns at the end only: nobody writes
    os._exit(1)  # at once, whatever is being done: nobody wants it any more


def ask(
    connection: Connection[Any, Any],
    action: str,
    arguments: tuple[Any, ...],
    *,
    timeout_s: float | None = None,
) -> Any:
    """Have a process do something and wait for the answer; its error is raised here.

    Raises `WorkerDiedError` when it ends instead, `CompileTimeoutError` when it takes too long.
    """
    send(connection, action, arguments)
    if timeout_s is not None and not connection.poll(timeout_s):
        raise CompileTimeoutError(f"it took longer than {timeout_s:.0f} s")
    return receive(connection)


def send(connection: Connection[Any, Any], action: str, arguments: tuple[Any, ...]) -> None:
    """Ask a process to do something. Raises `WorkerDiedError`."""
    try:
        connection.send_bytes(pickle.dumps((action, arguments), pickle.HIGHEST_PROTOCOL))
    except OSError as error:
        raise WorkerDiedError("a process of the compile ended early") from error


def receive(connection: Connection[Any, Any]) -> Any:
    """Wait for what a process answers; its error is raised here. Raises `WorkerDiedError`."""
    try:
        is_error, value = pickle.loads(connection.recv_bytes())  # noqa: S301 - our own child
    except (EOFError, OSError) as error:
        raise WorkerDiedError("a process of the compile ended early") from error
    if is_error:
        raise value
    return value
