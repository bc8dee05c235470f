"""What tests of sessions share: the sample session, a clock to set, a query."""

from __future__ import annotations

from historyserver.sessions import OpenSession
from storage.layout import SessionRef
from tests.harness.compiled_samples import SESSIONS

REF = SessionRef("ml", "v170", SESSIONS["v170"])


class Clock:
    """A clock that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


def count(session: OpenSession) -> int:
    """A query: how many tasks there are."""
    found: int = session.compiled.connection().execute("SELECT count(*) FROM tasks").fetchone()[0]
    return found
