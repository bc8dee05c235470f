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


class FetchOutcome(StrEnum):
    """What came of fetching a compiled file that another replica may have stored."""

    USED = "used"
    ABSENT = "absent"
    DAMAGED = "damaged"
    """Cut, corrupt, or far too large."""
    UNUSABLE = "unusable"
    """Whole, but no compiled session of this version."""
    OTHER_SESSION = "other_session"
    """It tells of another session than its key."""
    STORAGE_FAILED = "storage_failed"
    CACHE_FAILED = "cache_failed"
    """The local folder cannot take it."""


class StoreOutcome(StrEnum):
    """What came of storing a compiled file for other replicas."""

    STORED = "stored"
    THERE_ALREADY = "there_already"
    """Another replica was first."""
    STORAGE_FAILED = "storage_failed"
    FILE_FAILED = "file_failed"
    """The local file is gone or cannot be read."""
    STOPPING = "stopping"
    """The server stops."""
    FAILED = "failed"
    """A fault of ours; the log has it."""


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

    def fetched(self, outcome: FetchOutcome) -> None:
        """One look for a compiled file in storage."""
        ...

    def stored(self, outcome: StoreOutcome) -> None:
        """One compiled file that was to be stored."""
        ...


class Unwatched:
    """Counts nothing."""

    def opened(self, outcome: OpeningOutcome, seconds: float) -> None:
        """See `SessionWatch`."""

    def broken(self, reason: BrokenReason) -> None:
        """See `SessionWatch`."""

    def compiled(self, outcome: CompileOutcome, seconds: float, meta: Meta | None) -> None:
        """See `SessionWatch`."""

    def fetched(self, outcome: FetchOutcome) -> None:
        """See `SessionWatch`."""

    def stored(self, outcome: StoreOutcome) -> None:
        """See `SessionWatch`."""
