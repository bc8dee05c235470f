"""Runs the labour of a compile: in this process, or in several.

Processes are started as `python -m historyserver.compiling.child`, not forked: the caller may
have threads, and not spawned by multiprocessing: that would run the caller's main module again.
A process started so forks those that help it (see `servant`).
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from historyserver.compiling.labour import Labourer, MapResult, ReducePlan
from historyserver.compiling.units import Unit
from storage.backend import Backend

_CHILD = "historyserver.compiling.child"


class CrewError(Exception):
    """A process of the compile died."""


class Crew(Protocol):
    """Maps all units, then reduces all partitions."""

    def map(self, units: Iterable[Unit]) -> dict[int, MapResult]:
        """Fold all units; give each mapper's result by its number."""
        ...

    def reduce(self, plan: ReducePlan, partitions: int) -> int:
        """Make the rows of all partitions; returns how many."""
        ...

    def begin_lineage(self, plan: ReducePlan, actor_names: Mapping[str, str]) -> None:
        """Have the summaries by lineage rendered, beside whatever the caller does next."""
        ...

    def lineage(self) -> dict[str, bytes]:
        """Give the summaries that `begin_lineage` asked for, by name."""
        ...


class SoloCrew:
    """Does everything in this process: right for small sessions, where a start costs more."""

    def __init__(self, backend: Backend, folder: Path, partitions: int) -> None:
        self._labourer = Labourer(backend, folder, 0, partitions)
        self._lineage: dict[str, bytes] = {}

    def map(self, units: Iterable[Unit]) -> dict[int, MapResult]:
        """See `Crew`."""
        for unit in units:
            self._labourer.map(unit)
        return {0: self._labourer.finish_map()}

    def reduce(self, plan: ReducePlan, partitions: int) -> int:
        """See `Crew`."""
        return sum(self._labourer.reduce(plan, partition) for partition in range(partitions))

    def begin_lineage(self, plan: ReducePlan, actor_names: Mapping[str, str]) -> None:
        """See `Crew`."""
        self._lineage = self._labourer.lineage(plan, actor_names)

    def lineage(self) -> dict[str, bytes]:
        """See `Crew`."""
        return self._lineage


class ProcessCrew:
    """Several processes that take the next piece of work whenever they are done with one."""

    def __init__(self, connections: list[Connection[Any, Any]]) -> None:
        self._connections = connections

    def map(self, units: Iterable[Unit]) -> dict[int, MapResult]:
        """See `Crew`."""
        self._hand_out("map", ((unit,) for unit in units))
        results = {}
        for number, connection in enumerate(self._connections):
            _send(connection, ("finish_map", ()))
            results[number] = _receive(connection)
        return results

    def reduce(self, plan: ReducePlan, partitions: int) -> int:
        """See `Crew`."""
        for connection in self._connections:
            _send(connection, ("plan", (plan,)))
            _receive(connection)
        counts = self._hand_out("reduce", ((partition,) for partition in range(partitions)))
        return sum(counts)

    def begin_lineage(self, plan: ReducePlan, actor_names: Mapping[str, str]) -> None:
        """See `Crew`."""
        _send(self._connections[0], ("lineage", (plan, actor_names)))

    def lineage(self) -> dict[str, bytes]:
        """See `Crew`."""
        rendered: dict[str, bytes] = _receive(self._connections[0])
        return rendered

    def _hand_out(self, action: str, jobs: Iterable[tuple[Any, ...]]) -> list[Any]:
        answers: list[Any] = []
        waiting = iter(jobs)
        busy: list[Connection[Any, Any]] = []
        for connection in self._connections:
            if _send_next(connection, action, waiting):
                busy.append(connection)
        while busy:
            answered = wait(busy)
            for ready in [connection for connection in busy if connection in answered]:
                answers.append(_receive(ready))
                if not _send_next(ready, action, waiting):
                    busy.remove(ready)
        return answers


@contextlib.contextmanager
def hire(
    backend: Backend,
    folder: Path,
    *,
    workers: int,
    partitions: int,
    forked: Sequence[Connection[Any, Any]] = (),
) -> Iterator[Crew]:
    """Start a crew, and end its processes whatever happens.

    Args:
        backend: what events are read from; must pickle when there are several workers.
        folder: an empty folder of the compile's own.
        workers: how many processes; below 2 the work is done here.
        partitions: into how many parts attempts are divided.
        forked: processes that are there already, to be used and not ended.

    """
    if workers < 2:
        yield SoloCrew(backend, folder, partitions)
        return
    with contextlib.ExitStack() as stack:
        connections = list(forked)
        while len(connections) < workers:
            connections.append(stack.enter_context(started(_CHILD)))
        for number, connection in enumerate(connections):
            _send(connection, ("start", (backend, folder, number, partitions)))
        for connection in connections:
            _receive(connection)
        yield ProcessCrew(connections)


@contextlib.contextmanager
def started(module: str) -> Iterator[Connection[Any, Any]]:
    """Start a module that serves the file descriptor on its command line; end it afterwards."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
        )
    connection: Connection[Any, Any] = Connection(ours.detach())
    try:
        yield connection
    finally:
        connection.close()  # the child ends when its end closes
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ask(connection: Connection[Any, Any], action: str, arguments: tuple[Any, ...]) -> Any:
    """Have a started module do something and wait for the answer; its error is raised here."""
    _send(connection, (action, arguments))
    return _receive(connection)


def _send_next(
    connection: Connection[Any, Any], action: str, jobs: Iterator[tuple[Any, ...]]
) -> bool:
    for job in jobs:
        _send(connection, (action, job))
        return True
    return False


def _send(connection: Connection[Any, Any], message: tuple[str, tuple[Any, ...]]) -> None:
    try:
        connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
    except OSError as error:
        raise CrewError("a process of the compile ended early") from error


def _receive(connection: Connection[Any, Any]) -> Any:
    try:
        is_error, value = pickle.loads(connection.recv_bytes())  # noqa: S301 - our own child
    except (EOFError, OSError) as error:
        raise CrewError("a process of the compile ended early") from error
    if is_error:
        raise value
    return value
