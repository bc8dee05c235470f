"""What is said of things that the end of a session left open, in the words of its closing."""

from __future__ import annotations

from historyserver.compiled.opener import CompiledSession
from historyserver.folding.closing import Closing


def is_over(session: CompiledSession) -> bool:
    """Whether nothing of the session can still run."""
    return not session.meta.is_running


def ended_message(session: CompiledSession, what: str, state: str) -> str:
    """What is said of a thing that was open at the end."""
    return Closing(session.meta.end_ms).message(what, state)


def node_ended_message(session: CompiledSession) -> str:
    """What is said of a node that was alive at the end."""
    return Closing(session.meta.end_ms).node_message("ALIVE")
