"""First process of a private namespace: prepares it, then only waits.

It runs as process 1 of its PID namespace, so the kernel ends every process inside when it
exits. It exits when its standard input closes, which also happens when its starter dies in any
way: nothing of a killed demo or test stays behind. It uses the standard library only and no
`ip` command, so that the demo needs util-linux alone.

Arguments: pairs of SOURCE TARGET; each source folder is bound to its target, on an empty
file system that covers the target's parent.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1


def raise_loopback() -> None:
    """Set `lo` up: a new network namespace has it down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def bind(source: str, target: str) -> None:
    """Show `source` at the short path `target`, in this mount namespace only.

    Ray keeps unix sockets under its temp directory, and their paths may have 107 bytes: a data
    folder deep in a home directory would be too long.
    """
    parent = str(Path(target).parent)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", parent], check=True)
    Path(target).mkdir()
    subprocess.run(["mount", "--bind", source, target], check=True)


def main() -> None:
    """Prepare, report `ready`, and wait for the end of standard input."""
    pairs = sys.argv[1:]
    for source, target in zip(pairs[::2], pairs[1::2], strict=True):
        bind(source, target)
    raise_loopback()
    # Orphans of Ray's daemons become our children: let the kernel reap them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print("ready", flush=True)
    while os.read(0, 4096):
        pass


if __name__ == "__main__":
    main()
