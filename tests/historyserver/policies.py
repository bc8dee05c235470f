"""Access policies for tests."""

from __future__ import annotations

from historyserver.access import AccessRequest, Decision


class DenyPolicy:
    """Nobody reads anything: what shows that no route is outside of the policy."""

    def decide(self, request: AccessRequest) -> Decision:
        """Refuse."""
        return Decision(allowed=False, reason=f"{request.purpose.value} is not open to you")


class RecordingPolicy:
    """Allows everything and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[AccessRequest] = []

    def decide(self, request: AccessRequest) -> Decision:
        """Allow."""
        self.asked.append(request)
        return Decision(allowed=True)
