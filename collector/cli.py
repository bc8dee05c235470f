"""The command `collector`: settings, logging, then the lifecycle.

Exit status: 0 after a drain, 1 when it could not start (a port is taken, the data directory
belongs to another collector), 2 for wrong settings.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence

from collector.dashboard.client import CredentialsError
from collector.lifecycle.collector import Collector, StartError
from collector.options import OPTIONS
from collector.settings import read_settings
from storage.backend import ConfigError
from storage.program import logs
from storage.program.options import HELP_FLAGS, VERSION_FLAGS, OptionError, help_text
from storage.program.version import installed_version
from storage.settings import open_backend

PROG = "collector"
SUMMARY = (
    "Runs beside Ray in a pod: keeps its events, logs and dashboard answers in object storage, so "
    "that the history server can show the session when the cluster is gone."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the collector until it is told to stop."""
    arguments = sys.argv[1:] if argv is None else argv
    if HELP_FLAGS.intersection(arguments):
        print(help_text(OPTIONS, prog=PROG, summary=SUMMARY))
        return 0
    if VERSION_FLAGS.intersection(arguments):
        print(f"{PROG} {installed_version()}")
        return 0
    try:
        settings = read_settings(arguments, os.environ)
        backend = open_backend(settings.storage)
    except (OptionError, ConfigError) as error:
        print(f"{PROG}: error: {error}", file=sys.stderr)
        return 2
    logs.set_up(level=settings.log_level, style=settings.log_format)
    # aiohttp quotes parts of malformed requests in its messages.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    try:
        collector = Collector(settings, backend, version=installed_version(), env=os.environ)
        asyncio.run(collector.run())
    except CredentialsError as error:
        print(f"{PROG}: error: {error}", file=sys.stderr)
        return 2
    except StartError as error:
        print(f"{PROG}: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
