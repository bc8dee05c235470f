"""The policy seam: what is asked before a request is answered, and the decision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from historyserver.http.selection import Selection


class Purpose(Enum):
    """What a request is for, coarse enough for a policy to be readable."""

    PROBE = "probe"
    """Health and metrics of this server."""
    PAGE = "page"
    """Our static files and messages; no session's data."""
    LIST = "list"
    """Which sessions there are."""
    SESSION = "session"
    """Data of one session: its answers, its files and the page of its facts."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """Who asks for what.

    `selection` is the session that the request means, if any: where the address names one, that
    one, whatever cookies or headers say.
    """

    purpose: Purpose
    method: str
    path: str
    selection: Selection | None


@dataclass(frozen=True, slots=True)
class Decision:
    """Yes, or no with a reason that the reader may see."""

    allowed: bool
    reason: str = ""


class Policy(Protocol):
    """Decides for each request. Must not block and must not raise for a bad request."""

    def decide(self, request: AccessRequest) -> Decision:
        """Say whether the request may be answered."""
        ...


class OpenPolicy:
    """Everybody who reaches the port reads everything (`--auth=none`, or loopback only)."""

    def decide(self, request: AccessRequest) -> Decision:
        """Allow."""
        del request
        return Decision(allowed=True)
