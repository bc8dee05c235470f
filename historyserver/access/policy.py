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
    """Our pages and static files; no session's data beyond the list."""
    LIST = "list"
    """Which sessions there are."""
    SESSION = "session"
    """Data of one session."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """Who asks for what."""

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


class DenyPolicy:
    """Nobody reads anything: what shows in tests that no route is outside of the guard."""

    def decide(self, request: AccessRequest) -> Decision:
        """Refuse."""
        return Decision(allowed=False, reason=f"{request.purpose.value} is not open to you")
