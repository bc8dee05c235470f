"""First process of a private namespace: prepares it, then only waits.

It runs as process 1 of its PID namespace, so the kernel ends every process inside when it
exits. It exits when its standard input closes, which also happens when its starter dies in any
way: nothing of a killed demo or test stays behind. It uses the standard library only and no
`ip` command, so that the demo needs util-linux alone.

Arguments: pairs of SOURCE TARGET; each source folder is bound to its target, which is made on a
file system in memory: the machine's own folders stay as they are.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import stat
import struct
import sys
from pathlib import Path

SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
MS_BIND = 0x1000
MS_REC = 0x4000
LIBC = ctypes.CDLL(None, use_errno=True)


def raise_loopback() -> None:
    """Set `lo` up: a new network namespace has it down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def mount(source: Path | str, target: Path, *, kind: str = "", flags: int = 0) -> None:
    """The system call: the `mount` command resolves paths that only the kernel should."""
    if LIBC.mount(os.fsencode(source), os.fsencode(target), kind.encode(), flags, None):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot mount on {target}: {os.strerror(number)}")


def cover(folder: Path, *, but: str) -> None:
    """Put a file system in memory over `folder` and show there all that was in it, except `but`.

    A new folder can be made then, and whoever keeps this repository, its data or Python below
    `folder` still finds them.
    """
    below = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    names = [entry.name for entry in folder.iterdir() if entry.name != but]
    mount("tmpfs", folder, kind="tmpfs")
    for name in names:
        show(Path(f"/proc/self/fd/{below}/{name}"), folder / name)
    os.close(below)


def show(source: Path, target: Path) -> None:
    """Show one entry of a covered folder; one that cannot be shown stays hidden."""
    try:
        mode = source.lstat().st_mode
        if stat.S_ISLNK(mode):
            target.symlink_to(source.readlink())
            return
        if stat.S_ISDIR(mode):
            target.mkdir()
        else:
            target.touch()
        mount(source, target, flags=MS_BIND | MS_REC)
    except OSError as error:
        print(f"{target} is hidden: {error}", file=sys.stderr)


def bind(source: Path, target: Path) -> None:
    """Show `source` at the short path `target`, in this mount namespace only.

    Ray keeps unix sockets under its temp directory, and their paths may have 107 bytes: a data
    folder deep in a home directory would be too long.
    """
    top = next(parent for parent in target.parents if parent.exists())
    if top == Path("/"):
        sys.exit(f"there is no folder {target.parents[-2]}")
    held = os.open(source, os.O_PATH | os.O_DIRECTORY)
    cover(top, but=target.relative_to(top).parts[0])
    target.mkdir(parents=True)
    mount(f"/proc/self/fd/{held}", target, flags=MS_BIND | MS_REC)
    os.close(held)


def main() -> None:
    """Prepare, report `ready`, and wait for the end of standard input."""
    pairs = sys.argv[1:]
    for source, target in zip(pairs[::2], pairs[1::2], strict=True):
        bind(Path(source), Path(target))
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
