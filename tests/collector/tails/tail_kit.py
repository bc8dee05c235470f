"""Reads all that a test's tails have."""

from __future__ import annotations

from collector.tails import LogFrameData, LogTails
from collector.tails.frames import decompress


def drain(tails: LogTails, *, scan: bool = True) -> dict[str, bytes]:
    """Read and commit all there is; by incarnation."""
    if scan:
        tails.scan()
    content: dict[str, bytes] = {}
    frames: list[LogFrameData] = []
    for frame in tails.read(max_raw_bytes=2**40):
        content[frame.incarnation] = content.get(frame.incarnation, b"") + decompress(
            frame.data, raw_bytes=frame.log_length
        )
        frames.append(frame)
    tails.commit(frames)
    return content


def by_path(tails: LogTails, *pieces: dict[str, bytes]) -> dict[str, bytes]:
    """All that was read of each log, under the name that it has now."""
    found: dict[str, bytes] = {}
    for log in tails.logs():
        found[log.path] = b"".join(piece.get(log.incarnation, b"") for piece in pieces)
    return found
