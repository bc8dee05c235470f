"""Compiles that failed, remembered so that a broken session does not keep all processors busy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from historyserver.sessions.errors import SessionBrokenError

FAILED_REST_S = 60.0
"""A session that failed twice the same way is not tried again for so long, since each attempt
may take all processors and memory from the others."""

KEPT = 1000


@dataclass(frozen=True, slots=True)
class _Failure:
    error: SessionBrokenError
    number: int
    until_s: float


class Failures:
    """By the fingerprint of what was compiled: a session that changed is tried at once."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._failures: dict[str, _Failure] = {}

    def check(self, fingerprint: str) -> None:
        """Raise `SessionBrokenError` while a session rests."""
        failure = self._failures.get(fingerprint)
        if failure is not None and failure.until_s > self._monotonic_s():
            raise SessionBrokenError(failure.error.reason, str(failure.error))

    def add(self, fingerprint: str, error: SessionBrokenError) -> None:
        """The first failure may be an accident, as a killed process; after that it rests."""
        before = self._failures.get(fingerprint)
        number = 1 if before is None else before.number + 1
        rest_s = 0.0 if number == 1 else FAILED_REST_S
        if len(self._failures) >= KEPT:
            self._failures.clear()
        self._failures[fingerprint] = _Failure(error, number, self._monotonic_s() + rest_s)

    def forget(self, fingerprint: str) -> None:
        """It went well."""
        self._failures.pop(fingerprint, None)
