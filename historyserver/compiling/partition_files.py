"""Frames of msgpack in files of the compile's own folder: how its processes hand data over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_LENGTH_BYTES = 4


def write_frame(file: BinaryIO, frame: bytes) -> None:
    """Append one frame."""
    file.write(len(frame).to_bytes(_LENGTH_BYTES, "little"))
    file.write(frame)


def read_frames(path: Path) -> Iterator[bytes]:
    """Yield the frames of a file; a file that is not there has none."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        while head := file.read(_LENGTH_BYTES):
            yield file.read(int.from_bytes(head, "little"))
