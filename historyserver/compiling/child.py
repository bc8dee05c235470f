"""One process of a compile: takes work from a socket until it closes. Started by `crew`."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from historyserver.compiled.meta import Meta
from historyserver.compiling.labour import Labourer, MapResult, ReducePlan
from historyserver.compiling.units import Unit
from historyserver.reading.source import SessionSource
from storage.backend import Backend


class Servant:
    """What the parent may ask for, one method each."""

    def __init__(self) -> None:
        self._labourer: Labourer | None = None
        self._plan: ReducePlan | None = None

    def start(self, backend: Backend, folder: Path, number: int, partitions: int) -> None:
        """Become a labourer of a compile."""
        self._labourer = Labourer(backend, folder, number, partitions)

    def map(self, unit: Unit) -> None:
        """Fold one unit."""
        self._hired.map(unit)

    def finish_map(self) -> MapResult:
        """Put the last attempts aside."""
        return self._hired.finish_map()

    def plan(self, plan: ReducePlan) -> None:
        """Keep the plan of the reduce step."""
        self._plan = plan

    def reduce(self, partition: int) -> int:
        """Make the rows of one partition."""
        if self._plan is None:
            raise RuntimeError("reduce before plan")
        return self._hired.reduce(self._plan, partition)

    def lineage(self, plan: ReducePlan, actor_names: Mapping[str, str]) -> dict[str, bytes]:
        """Render the summaries by lineage."""
        return self._hired.lineage(plan, actor_names)

    def compile(self, backend: Backend, source: SessionSource, path: Path, workers: int) -> Meta:
        """Compile a whole session."""
        from historyserver.compiling.compile import compile_session  # noqa: PLC0415 - mappers start faster without

        return compile_session(backend, source, path, workers=workers)

    @property
    def _hired(self) -> Labourer:
        if self._labourer is None:
            raise RuntimeError("work before start")
        return self._labourer


def serve(connection: Connection[Any, Any]) -> None:
    """Do what is asked, one message after the other; errors go back as they are."""
    servant = Servant()
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            action, arguments = pickle.loads(message)  # noqa: S301 - from our parent
            answer = getattr(servant, action)(*arguments)
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


def main() -> None:
    """Serve the file descriptor that the command line names."""
    gc.disable()  # nothing here forms cycles, and passes over all attempts cost much
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        serve(Connection(int(sys.argv[1])))
    os._exit(0)  # at once: nothing is left to do, and tidying up large tables takes long


if __name__ == "__main__":
    main()
