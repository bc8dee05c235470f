"""Opening a session with a bounded wait."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from historyserver.compiled.opener import CompiledSession
from historyserver.http.selection import SelectionSource, parse
from historyserver.sessions import OpenSession
from historyserver.sessions.opening import OpeningError, OpeningReason, SessionOpener
from historyserver.sessions.preparing import Prepared
from storage.backend import Backend, UnavailableError
from storage.layout import SessionRef
from tests.historyserver.asking import Asker, refused
from tests.historyserver.hand_made import (
    PREFIX,
    FixedCatalogue,
    FixedPreparer,
    HandMade,
    app_of,
    entry_of,
    sessions_with,
)


class SlowPreparer(FixedPreparer):
    """Takes until the event to prepare."""

    def __init__(self, *opened: OpenSession) -> None:
        super().__init__(*opened)
        self.ready = threading.Event()

    def prepare(self, ref: SessionRef, known: CompiledSession | None) -> Prepared:
        """Wait."""
        prepared = super().prepare(ref, known)
        self.ready.wait(10)
        return prepared


class BrokenPreparer(FixedPreparer):
    """Its store fails."""

    def prepare(self, ref: SessionRef, known: CompiledSession | None) -> Prepared:
        """Fail."""
        raise UnavailableError(f"{ref.session}: the bucket does not answer; try again later")


def test_a_long_preparation_answers_503_and_goes_on(
    backend: Backend, hand_made: HandMade, tmp_path: Path
) -> None:
    """Below the 30 s of Ray's proxy; a page asks again by itself; the work is done once."""
    preparer = SlowPreparer(hand_made.opened())
    ui = tmp_path / "ui"
    ui.mkdir()
    (ui / "index.html").write_text("<title>ui</title>")
    app = app_of(
        backend, entries=[entry_of()], sessions=sessions_with(preparer), open_timeout_s=0.2, ui=ui
    )
    ask = Asker(app)
    started_s = time.monotonic()
    response = ask.session("/api/version")
    assert time.monotonic() - started_s < 2
    assert "try again" in refused(response, "session_preparing", status=503)
    assert response.headers["Retry-After"] == "3"
    page = ask.get(PREFIX + "/", headers={"Accept": "text/html"})
    html = page.get_data(as_text=True)
    assert page.status_code == 503
    assert '<meta http-equiv="refresh" content="3">' in html
    assert "being prepared" in html
    assert preparer.calls == 1
    preparer.ready.set()
    deadline_s = time.monotonic() + 5
    while ask.session("/api/version").status_code != 200:
        assert time.monotonic() < deadline_s
    assert ask.get(PREFIX + "/").get_data(as_text=True) == "<title>ui</title>"
    assert preparer.calls == 1


def test_many_readers_wait_for_one_preparation(backend: Backend, hand_made: HandMade) -> None:
    """All get the answer, and no thread pile-up."""
    preparer = SlowPreparer(hand_made.opened())
    app = app_of(backend, entries=[entry_of()], sessions=sessions_with(preparer), open_timeout_s=10)
    codes: list[int] = []

    def read() -> None:
        codes.append(Asker(app).session("/api/version").status_code)

    readers = [threading.Thread(target=read) for _ in range(12)]
    for reader in readers:
        reader.start()
    time.sleep(0.1)
    preparer.ready.set()
    for reader in readers:
        reader.join(10)
    assert codes == [200] * 12
    assert preparer.calls == 1


def test_some_threads_never_wait(backend: Backend, hand_made: HandMade) -> None:
    """Probes and open sessions need them: whoever comes when enough wait is told to come back."""
    preparer = SlowPreparer(hand_made.opened())
    sessions = sessions_with(preparer)
    opener = SessionOpener(
        catalogue=FixedCatalogue(backend, [entry_of()]),
        sessions=sessions,
        patience_s=10,
        max_waiting=0,
    )
    chosen = parse("ml", "raycluster", "v170", "latest", source=SelectionSource.PATH)
    began_s = time.monotonic()
    with pytest.raises(OpeningError) as caught:
        opener.open(chosen)
    assert time.monotonic() - began_s < 2
    assert caught.value.reason is OpeningReason.PREPARING
    preparer.ready.set()
    deadline_s = time.monotonic() + 5
    while sessions.peek(hand_made.ref) is None:  # the work went on without a waiter
        assert time.monotonic() < deadline_s
    assert opener.open(chosen).ref == hand_made.ref
    sessions.close()


def test_a_failing_store_is_503_and_the_next_request_tries_again(
    backend: Backend, hand_made: HandMade
) -> None:
    """The reason is in the answer."""
    sessions = sessions_with(BrokenPreparer(hand_made.opened()))
    ask = Asker(app_of(backend, entries=[entry_of()], sessions=sessions))
    for _ in range(2):
        message = refused(ask.session("/api/version"), "storage_unavailable", status=503)
        assert "bucket" in message
