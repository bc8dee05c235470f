"""How many events of each session were received, and what became of them.

Read at every manifest by the shipper, written by the disk thread. The numbers are kept in
`<data dir>/<session>/totals.json` so that a restarted collector goes on counting; a killed
one forgets what it counted since the last manifest, never an event.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path

import msgspec

from storage.wire import EventTotals


class _Counts(msgspec.Struct):
    received: int = 0
    duplicates: int = 0
    quarantined: int = 0
    stored: int = 0


@dataclass(slots=True)
class BatchCounts:
    """What one group of batches held of one session."""

    received: int = 0
    duplicates: int = 0
    stored: int = 0


class Ledger:
    """The totals per session. Safe from any thread.

    Quarantined events often name no session; they count for the session that runs now.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._lock = threading.Lock()
        self._sessions: dict[str, _Counts] = {}
        self._homeless = 0

    def add(self, session: str, counts: BatchCounts) -> None:
        """Count events of a session."""
        with self._lock:
            total = self._counts(session)
            total.received += counts.received
            total.duplicates += counts.duplicates
            total.stored += counts.stored

    def add_quarantined(self, count: int) -> None:
        """Count bad events."""
        with self._lock:
            self._homeless += count

    def totals(self, session: str) -> EventTotals:
        """The totals of a session as the manifest wants them; saved on the way."""
        with self._lock:
            total = self._counts(session)
            total.quarantined += self._homeless
            total.received += self._homeless
            self._homeless = 0
            self._save(session, total)
            return EventTotals(
                received=total.received,
                duplicates=total.duplicates,
                quarantined=total.quarantined,
                stored=total.stored,
            )

    def _counts(self, session: str) -> _Counts:
        if session not in self._sessions:
            self._sessions[session] = self._load(session)
        return self._sessions[session]

    def _load(self, session: str) -> _Counts:
        try:
            return msgspec.json.decode(self._path(session).read_bytes(), type=_Counts)
        except (OSError, msgspec.DecodeError):
            return _Counts()

    def _save(self, session: str, total: _Counts) -> None:
        path = self._path(session)
        temporary = path.with_suffix(".tmp")
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(msgspec.json.encode(total))
            temporary.replace(path)

    def _path(self, session: str) -> Path:
        return self._data_dir / session / "totals.json"
