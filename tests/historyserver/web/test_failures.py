"""Faults of the server itself: an error with an id for the reader, the trace for the log."""

from __future__ import annotations

import pytest

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
