"""The process of a compile, started by `processes` as `python -m`; it forks those that help it."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from multiprocessing.connection import Connection

import historyserver.compiling.compile  # noqa: F401 - before forks, so that it is shared
from historyserver.compiling.commands import serve
from storage.program import logs


def main() -> None:
    """Serve the socket that the command line names, while the lifeline that it names holds."""
    connection, lifeline, level, style = sys.argv[1:]
    # Not stdout: that may be the result of a command.
    logs.set_up(level=level, style=style, stream=sys.stderr)
    gc.disable()  # nothing here forms cycles, and passes over all attempts cost much
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        serve(Connection(int(connection)), int(lifeline))
    os._exit(0)  # at once: nothing is left to do, and tidying up large tables takes long


if __name__ == "__main__":
    main()
