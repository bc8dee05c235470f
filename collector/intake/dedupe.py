"""Remembers the ids of the events stored lately, so that a resent batch is stored once.

Pure but for `save` and `load`. Ray resends a whole batch when no answer came in 3 s, also
when the batch was stored (measured: 105 events arrived 8 times). One batch per node agent
is in flight at a time, so a window of some batches is enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from collector.whole_files import replace_file

DIGEST_BYTES = 16
DEFAULT_CAPACITY = 50_000


def digest(event_id: str) -> bytes:
    """A fixed-size stand-in for the id: 128 bits make a false duplicate practically impossible."""
    return blake2b(event_id.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


class Window:
    """At least the last `capacity` digests, at most twice as many, in two sets.

    When the young set is full it becomes the old one, and the old one is forgotten: no
    per-entry bookkeeping, and a bound on memory (about 10 MB at the default).
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._young or digest in self._old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def add_all(self, digests: Iterable[bytes]) -> None:
        """Remember these; called only when their events are on disk."""
        for digest in digests:
            self._young.add(digest)
            if len(self._young) >= self._capacity:
                self._old = self._young
                self._young = set()

    def save(self, path: Path) -> None:
        """Write the window to a file, atomically.

        Done before the journal lets go of sealed segments: once their files are removed,
        their ids can no longer be read from them after a restart.
        """
        replace_file(path, b"".join([*self._old, *self._young]))

    def load(self, path: Path) -> None:
        """Add what `save` wrote; a missing or torn file gives what it has."""
        try:
            with path.open("rb") as file:
                data = file.read(2 * self._capacity * DIGEST_BYTES)
        except FileNotFoundError:
            return
        whole = len(data) - len(data) % DIGEST_BYTES
        self.add_all(data[at : at + DIGEST_BYTES] for at in range(0, whole, DIGEST_BYTES))
