"""Small files that are there whole or not at all, whatever kills the process."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write `data` beside `path`, then rename it over. Raises `OSError`; `path` is whole then too.

    Args:
        path: its folder is made when it is missing.
        data: all of it.
        sync: bring it to the device first, so that a power cut cannot leave an empty file.

    """
    temporary = path.with_name(path.name + ".tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
