"""What the contract suite runs against: add a factory here to hold another backend to it.

A factory opens the backend on a place of its own (a directory; a bucket's prefix named after
it). It is called in other processes too, for the tests of races and of killed writers:
`python -m tests.storage.contract NAME PLACE ACTION KEY` is such a process.
"""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from storage.backend import Backend, ExistsError
from storage.faults import FaultyBackend
from storage.local import LocalBackend

Factory = Callable[[Path], Backend]

FACTORIES: dict[str, Factory] = {
    "local": LocalBackend,
    "local-with-root": lambda place: LocalBackend(place, root="/tenant/log/"),
    "local-in-faulty": lambda place: FaultyBackend(LocalBackend(place)),
}

REPOSITORY = Path(__file__).parents[2]
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class Store:
    """One backend under test and the place that it has for itself."""

    factory: str
    place: Path

    def open(self) -> Backend:
        """Open the backend anew, as another program would."""
        return FACTORIES[self.factory](self.place)

    def process(self, action: str, key: str) -> subprocess.Popen[str]:
        """Another process that does `action` to the same store; it says `ready` first."""
        arguments = [sys.executable, "-m", "tests.storage.contract", self.factory, str(self.place)]
        return subprocess.Popen(
            [*arguments, action, key],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def numbered_chunks(count: int) -> Iterator[bytes]:
    """`count` chunks of 1 MiB, each different."""
    for number in range(count):
        yield number.to_bytes(4, "big") * (MEBIBYTE // 4)


def numbered_digest(count: int) -> str:
    """The SHA-256 of `numbered_chunks`."""
    digest = hashlib.sha256()
    for chunk in numbered_chunks(count):
        digest.update(chunk)
    return digest.hexdigest()


def _say(line: str) -> None:
    print(line, flush=True)


def _create(backend: Backend, key: str) -> None:
    """Wait for the word, then try to be the one who creates the object."""
    _say("ready")
    name = sys.stdin.readline().strip()
    try:
        backend.put(key, name.encode(), create_only=True)
    except ExistsError:
        _say("exists")
    else:
        _say("won")


def _hang(backend: Backend, key: str) -> None:
    """Write 4 MiB, then hang within the put until killed."""

    def body() -> Iterator[bytes]:
        yield from numbered_chunks(4)
        _say("ready")
        time.sleep(600)

    backend.put(key, body())


def _stream(backend: Backend, key: str) -> None:
    """Stream 64 MiB in and out, then say by how many KiB the process grew, and the digest."""
    backend.put(f"{key}.warm", numbered_chunks(2))
    for _ in backend.get(f"{key}.warm"):
        pass
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    backend.put(key, numbered_chunks(64))
    digest = hashlib.sha256()
    for chunk in backend.get(key):
        digest.update(chunk)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    _say(f"{grown_kib} {digest.hexdigest()}")


if __name__ == "__main__":
    _factory, _place, _action, _key = sys.argv[1:]
    {"create": _create, "hang": _hang, "stream": _stream}[_action](
        FACTORIES[_factory](Path(_place)), _key
    )
