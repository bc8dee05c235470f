"""The workers of a compile: all work in this process, or in several."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from historyserver.compiling.map_reduce import CompileWorker, MapResult, ReducePlan
from historyserver.compiling.processes import CHILD, receive, send, started
from historyserver.compiling.units import Unit
from storage.backend import Backend


class WorkerPool(Protocol):
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


class InlinePool:
    """Does everything in this process: right for small sessions, where a start costs more."""

    def __init__(self, backend: Backend, folder: Path, partitions: int) -> None:
        self._worker = CompileWorker(backend, folder, 0, partitions)
        self._lineage: dict[str, bytes] = {}

    def map(self, units: Iterable[Unit]) -> dict[int, MapResult]:
        """See `WorkerPool`."""
        for unit in units:
            self._worker.map(unit)
        return {0: self._worker.finish_map()}

    def reduce(self, plan: ReducePlan, partitions: int) -> int:
        """See `WorkerPool`."""
        return sum(self._worker.reduce(plan, partition) for partition in range(partitions))

    def begin_lineage(self, plan: ReducePlan, actor_names: Mapping[str, str]) -> None:
        """See `WorkerPool`."""
        self._lineage = self._worker.lineage(plan, actor_names)

    def lineage(self) -> dict[str, bytes]:
        """See `WorkerPool`."""
        return self._lineage


class ProcessPool:
    """Several processes that take the next piece of work whenever they are done with one."""

    def __init__(self, connections: list[Connection[Any, Any]]) -> None:
        self._connections = connections

    def map(self, units: Iterable[Unit]) -> dict[int, MapResult]:
        """See `WorkerPool`."""
        self._hand_out("map", ((unit,) for unit in units))
        results = {}
        for number, connection in enumerate(self._connections):
            send(connection, "finish_map", ())
            results[number] = receive(connection)
        return results

    def reduce(self, plan: ReducePlan, partitions: int) -> int:
        """See `WorkerPool`."""
        for connection in self._connections:
            send(connection, "plan", (plan,))
            receive(connection)
        counts = self._hand_out("reduce", ((partition,) for partition in range(partitions)))
        return sum(counts)

    def begin_lineage(self, plan: ReducePlan, actor_names: Mapping[str, str]) -> None:
        """See `WorkerPool`."""
        send(self._connections[0], "lineage", (plan, actor_names))

    def lineage(self) -> dict[str, bytes]:
        """See `WorkerPool`."""
        rendered: dict[str, bytes] = receive(self._connections[0])
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
                answers.append(receive(ready))
                if not _send_next(ready, action, waiting):
                    busy.remove(ready)
        return answers


@contextlib.contextmanager
def start_pool(
    backend: Backend,
    folder: Path,
    *,
    workers: int,
    partitions: int,
    forked: Sequence[Connection[Any, Any]] = (),
) -> Iterator[WorkerPool]:
    """Start workers, and end its processes whatever happens.

    Args:
        backend: what events are read from; must pickle when there are several workers.
        folder: an empty folder of the compile's own.
        workers: how many processes; below 2 the work is done here.
        partitions: into how many parts attempts are divided.
        forked: processes that are there already, to be used and not ended.

    """
    if workers < 2:
        yield InlinePool(backend, folder, partitions)
        return
    with contextlib.ExitStack() as stack:
        connections = list(forked)
        while len(connections) < workers:
            connections.append(stack.enter_context(started(CHILD)))
        for number, connection in enumerate(connections):
            send(connection, "start", (backend, folder, number, partitions))
        for connection in connections:
            receive(connection)
        yield ProcessPool(connections)


def _send_next(
    connection: Connection[Any, Any], action: str, jobs: Iterator[tuple[Any, ...]]
) -> bool:
    for job in jobs:
        send(connection, action, job)
        return True
    return False
