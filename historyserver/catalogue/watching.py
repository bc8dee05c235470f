"""What the renewals of the list tell to whoever counts them."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class RenewalOutcome(StrEnum):
    """What came of renewing the list of sessions."""

    RENEWED = "renewed"
    STORAGE_FAILED = "storage_failed"
    """The old list stays; without one the failure is told to whoever asked."""
    FAILED = "failed"
    """A fault of ours; the log has it."""


class CatalogueWatch(Protocol):
    """Counts. Called from any thread; must not raise."""

    def renewed(self, outcome: RenewalOutcome) -> None:
        """One attempt to renew the list."""
        ...


class Unwatched:
    """Counts nothing."""

    def renewed(self, outcome: RenewalOutcome) -> None:
        """See `CatalogueWatch`."""
