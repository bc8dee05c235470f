"""What became of a session: one word for reading, closing, lists and answers."""

from __future__ import annotations

from enum import StrEnum


class SessionState(StrEnum):
    """What became of a session. The values are stored, listed and part of the API."""

    RUNNING = "running"
    ENDED = "ended"
    UNCLEAN = "unclean"
    """It is over, but nobody said so: the collector or the node was lost."""
