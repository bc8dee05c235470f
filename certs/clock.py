"""The time by which certificates are made: the API server's, where ours is wrong.

The API server is who verifies them. Its answers carry a `Date`; a difference of some seconds is
the answer's way and means nothing, one of minutes is a wrong clock here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_log = logging.getLogger("certs.clock")

TOLERATED = timedelta(seconds=60)


class ServerClock:
    """Our clock, corrected when it differs from the API server's by more than `TOLERATED`."""

    def __init__(self, local: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._local = local
        self._offset = timedelta(0)

    def now(self) -> datetime:
        """The time in UTC."""
        return self._local() + (self._offset if self.is_wrong else timedelta(0))

    @property
    def offset_s(self) -> float:
        """Seconds by which the API server is ahead of us."""
        return self._offset.total_seconds()

    @property
    def is_wrong(self) -> bool:
        """Whether our clock is corrected."""
        return abs(self._offset) > TOLERATED

    def observe(self, date: str | None) -> None:
        """Take the `Date` of an answer that just came."""
        try:
            served = parsedate_to_datetime(date or "")
        except ValueError:
            return
        if served.tzinfo is None:
            return
        was_wrong = self.is_wrong
        self._offset = served.astimezone(UTC) - self._local()
        if self.is_wrong and not was_wrong:
            _log.warning(
                "this clock differs from the API server's, whose time is taken",
                extra={"offset_s": round(self.offset_s)},
            )
