"""What a process of a compile does: takes work from a socket until it closes."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from historyserver.compiled.meta import Meta
from historyserver.compiling.map_reduce import CompileWorker, MapResult, ReducePlan
from historyserver.compiling.processes import end_with
from historyserver.compiling.units import Unit
from storage.backend import Backend

_END_WITHIN_S = 5.0


class Commands:
    """What the parent may ask for, one method each."""

    def __init__(self, lifeline: int) -> None:
        self._lifeline = lifeline
        self._worker: CompileWorker | None = None
        self._plan: ReducePlan | None = None

    def start(self, backend: Backend, folder: Path, number: int, partitions: int) -> None:
        """Become a worker of a compile."""
        end_with(self._lifeline)
        self._worker = CompileWorker(backend, folder, number, partitions)

    def map(self, unit: Unit) -> None:
        """Fold one unit."""
        self._begun.map(unit)

    def finish_map(self) -> MapResult:
        """Put the last attempts aside."""
        return self._begun.finish_map()

    def plan(self, plan: ReducePlan) -> None:
        """Keep the plan of the reduce step."""
        self._plan = plan

    def reduce(self, partition: int) -> int:
        """Make the rows of one partition."""
        if self._plan is None:
            raise RuntimeError("reduce before plan")
        return self._begun.reduce(self._plan, partition)

    def lineage(self, plan: ReducePlan, actor_names: Mapping[str, str]) -> dict[str, bytes]:
        """Render the summaries by lineage."""
        return self._begun.lineage(plan, actor_names)

    def compile(self, workers: int, task: bytes) -> Meta:
        """Compile a whole session, with processes forked before anything could start a thread.

        Args:
            workers: how many processes.
            task: pickle of backend, source and path; a backend may start threads, so it is
                made only when the processes are.

        """
        from historyserver.compiling.compile import compile_session  # noqa: PLC0415 - imports this

        with contextlib.ExitStack() as stack:
            helpers = range(workers if workers > 1 else 0)
            forked = [_forked(stack, self._lifeline) for _ in helpers]
            end_with(self._lifeline)
            backend, source, path = pickle.loads(task)  # noqa: S301 - from our parent
            return compile_session(backend, source, path, workers=workers, forked=forked)

    @property
    def _begun(self) -> CompileWorker:
        if self._worker is None:
            raise RuntimeError("work before start")
        return self._worker


def serve(connection: Connection[Any, Any], lifeline: int) -> None:
    """Do what is asked, one message after the other; errors go back as they are."""
    commands = Commands(lifeline)
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            action, arguments = pickle.loads(message)  # noqa: S301 - from our parent
            answer = getattr(commands, action)(*arguments)
            reply = pickle.dumps((False, answer), pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # whatever it is, the parent has to know
            reply = pickle.dumps((True, _picklable(error)))
        connection.send_bytes(reply)


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own error
    except Exception:  # an error that does not pickle still has to be told
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _forked(stack: contextlib.ExitStack, lifeline: int) -> Connection[Any, Any]:
    """Fork a process that serves, and end it with the stack.

    Only for a process without threads. It costs a few milliseconds, a start of Python 150.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _serve_alone(theirs.detach(), lifeline)
    theirs.close()
    connection: Connection[Any, Any] = Connection(ours.detach())
    stack.callback(_end, pid)
    stack.callback(connection.close)  # first: the child ends when its end closes
    return connection


def _serve_alone(fd: int, lifeline: int) -> NoReturn:
    """Serve in a forked process, which keeps nothing else open of its parent's."""
    try:
        first, second = sorted((fd, lifeline))
        os.closerange(3, first)
        os.closerange(first + 1, second)
        os.closerange(second + 1, os.sysconf("SC_OPEN_MAX"))
        with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
            serve(Connection(fd), lifeline)
    finally:
        os._exit(0)


def _end(pid: int) -> None:
    """Wait for a forked process, and kill it when it does not end."""
    until_s = time.monotonic() + _END_WITHIN_S
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > until_s:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.001)
