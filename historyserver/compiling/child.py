"""The process of a compile, started by `crew` as `python -m`; it forks those that help it."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from multiprocessing.connection import Connection

import historyserver.compiling.compile  # noqa: F401 - before forks, so that it is shared
from historyserver.compiling.servant import serve


def main() -> None:
    """Serve the file descriptor that the command line names."""
    gc.disable()  # nothing here forms cycles, and passes over all attempts cost much
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        serve(Connection(int(sys.argv[1])))
    os._exit(0)  # at once: nothing is left to do, and tidying up large tables takes long


if __name__ == "__main__":
    main()
