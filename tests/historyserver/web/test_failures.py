"""Faults of the server itself: an error with an id for the reader, the trace for the log."""

from __future__ import annotations

import pytest

from historyserver.sessions import BrokenReason, SessionBrokenError
from storage.backend import Backend
from tests.historyserver.asking import Asker, refused
from tests.historyserver.hand_made import HandMade, app_of


def test_a_fault_of_ours_shows_no_trace(
    backend: Backend,
    hand_made: HandMade,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log has the trace under the request's id."""
    ask = Asker(app_of(backend, hand_made.opened()))

    def broken(*args: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("historyserver.api.facts.snapshots.whole", broken)
    message = refused(ask.session("/timezone"), "internal", status=500)
    assert "secret" not in message
    assert "secret detail" in caplog.text


@pytest.mark.parametrize(
    ("reason", "code", "status", "retry_after"),
    [
        (BrokenReason.KEEPS_CHANGING, "session_preparing", 503, "3"),
        (BrokenReason.NO_SPACE, "session_broken", 503, "60"),
        (BrokenReason.COMPILE_FAILED, "session_broken", 500, None),
    ],
)
def test_what_passes_says_when_to_come_back(
    backend: Backend,
    hand_made: HandMade,
    monkeypatch: pytest.MonkeyPatch,
    reason: BrokenReason,
    code: str,
    status: int,
    retry_after: str | None,
) -> None:
    """A full disk or a busy session is no fault of what is stored."""
    ask = Asker(app_of(backend, hand_made.opened()))

    def broken(*_: object) -> None:
        raise SessionBrokenError(reason, "it is broken")

    monkeypatch.setattr("historyserver.sessions.opening.SessionOpener.open", broken)
    response = ask.session("/timezone")
    refused(response, code, status=status)
    assert response.headers.get("Retry-After") == retry_after
