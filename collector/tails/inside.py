"""Opens what lies in a session's directory, and is never led out of it.

Whoever runs code in Ray can put a symbolic link in the place of a directory or file between our
look and our opening, and the collector may read what they may not (tokens of its pod). So
where an opened descriptor really is, is asked of the kernel after the opening.
"""

from __future__ import annotations

import os
from pathlib import Path


class OutsideError(Exception):
    """The path leads out of the session's directory."""


def true_root(session_dir: Path) -> str:
    """Where the session's directory is; its own name is no link, what is above it may be."""
    return str(session_dir.parent.resolve() / session_dir.name)


def open_inside(path: Path | str, root: str, flags: int) -> int:
    """Open a path for reading; the caller closes it. Raises `OutsideError` or `OSError`.

    Args:
        path: below `root`, as a listing saw it.
        root: see `true_root`.
        flags: more flags of `os.open`.

    """
    # Not blocking: what was a regular file a moment ago may be a pipe now.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    try:
        inside = f"{true_place(descriptor)}/".startswith(f"{root}/")
    except OSError:
        os.close(descriptor)
        raise
    if not inside:
        os.close(descriptor)
        raise OutsideError(f"{path} is not in {root}")
    return descriptor


def true_place(descriptor: int) -> Path:
    """The path of an open descriptor, free of links."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()
