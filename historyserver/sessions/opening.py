"""From a selection to an open session, with a bounded wait.

Preparing a large session can take longer than Ray's proxy waits (30 s, then it would show the
local, empty cluster instead). So a request waits `patience_s` at most; the work goes on, and
the reader is told to ask again. Only some requests may wait at once: whoever waits holds a
thread, and the others are for open sessions and for probes, which must never wait.
"""

from __future__ import annotations

import threading
from concurrent.futures import TimeoutError as FutureTimeoutError
from enum import Enum

from historyserver.catalogue import Catalogue, SessionEntry
from historyserver.http.selection import LATEST, LIVE, Selection, SelectionSource
from historyserver.sessions.session import OpenSession
from historyserver.sessions.sessions import Sessions


class OpeningReason(Enum):
    """Why no session was opened."""

    NONE_CHOSEN = "none_chosen"
    NOT_FOUND = "not_found"
    PREPARING = "preparing"


class OpeningError(Exception):
    """The session that a request means is not open. The message is for the reader."""

    def __init__(self, reason: OpeningReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class SessionOpener:
    """Finds sessions in the catalogue and waits a while for them to open."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        sessions: Sessions,
        patience_s: float,
        max_waiting: int,
    ) -> None:
        self._catalogue = catalogue
        self._sessions = sessions
        self._patience_s = patience_s
        self._waiting = threading.Semaphore(max_waiting)

    def find(self, selection: Selection | None) -> SessionEntry:
        """The session meant. Raises `OpeningError`."""
        if selection is None:
            raise OpeningError(
                OpeningReason.NONE_CHOSEN,
                "no session is chosen: open this server's first page and follow a link, or GET "
                "/enter_cluster/{namespace}/{kind}/{name}/{session} and send its cookies, or send "
                "the header x-ray-history-session: namespace/kind/name/session",
            )
        entry = self._entry(selection)
        if entry is None:
            raise OpeningError(OpeningReason.NOT_FOUND, _not_found(selection))
        return entry

    def _entry(self, selection: Selection) -> SessionEntry | None:
        catalogue, place = self._catalogue, (selection.namespace, selection.kind, selection.name)
        if selection.session == LATEST:
            return catalogue.latest(*place)
        if selection.session == LIVE:
            # KubeRay's clients ask for `live` by habit; the newest is what it last was.
            return catalogue.running(*place) or catalogue.latest(*place)
        return catalogue.find(*place, selection.session)

    def open(self, selection: Selection | None) -> OpenSession:
        """Open the session meant, or tell to come back. Raises `OpeningError`."""
        ref = self.find(selection).ref
        ready = self._sessions.peek(ref)
        if ready is not None:
            return ready
        work = self._sessions.start(ref)
        may_wait = self._waiting.acquire(blocking=False)
        try:
            return work.result(timeout=self._patience_s if may_wait else 0)
        except FutureTimeoutError:
            if work.done():
                raise
            raise OpeningError(
                OpeningReason.PREPARING,
                f"the session {ref.session} is being prepared for the first time; "
                "try again in a few seconds",
            ) from None
        finally:
            if may_wait:
                self._waiting.release()


def _not_found(selection: Selection) -> str:
    name = f"{selection.namespace}/{selection.kind}/{selection.name}"
    how = (
        " (chosen by a cookie; GET /clusters lists what there is)"
        if selection.source is SelectionSource.COOKIE
        else ""
    )
    return f"no session {selection.session} of {name} is stored{how}"
