"""What the opening of sessions tells to whoever counts it."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from historyserver.compiled.meta import Meta
from historyserver.sessions.errors import BrokenReason


class OpeningOutcome(StrEnum):
    """What came of opening a session that was not open."""

    OPENED = "opened"
    NOT_FOUND = "not_found"
    BROKEN = "broken"
    """See `BrokenReason`."""
    STORAGE_FAILED = "storage_failed"
    FAILED = "failed"
    """A fault of ours; the log has it."""


class CompileOutcome(StrEnum):
    """What came of a compile."""

    MADE = "made"
    SOURCE_CHANGED = "source_changed"
    """Something was moved meanwhile; the session is located and compiled again."""
    STORAGE_FAILED = "storage_failed"
    BROKEN = "broken"
    """See `BrokenReason`."""


class SessionWatch(Protocol):
    """Counts. Called from any thread; must not raise."""

    def opened(self, outcome: OpeningOutcome, seconds: float) -> None:
        """One opening of a session that was not open."""
        ...

    def broken(self, reason: BrokenReason) -> None:
        """A session turned out to be broken, also when it was tried already a short while ago."""
        ...

    def compiled(self, outcome: CompileOutcome, seconds: float, meta: Meta | None) -> None:
        """One compile; with the facts of what was made."""
        ...


class Unwatched:
    """Counts nothing."""

    def opened(self, outcome: OpeningOutcome, seconds: float) -> None:
        """See `SessionWatch`."""

    def broken(self, reason: BrokenReason) -> None:
        """See `SessionWatch`."""

    def compiled(self, outcome: CompileOutcome, seconds: float, meta: Meta | None) -> None:
        """See `SessionWatch`."""
