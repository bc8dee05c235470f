"""The one folder in which the demo keeps everything, and the checks before anything starts."""

from __future__ import annotations

import fcntl
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from demo.progress import DemoError

MARKER = ".ray-history-demo"
# A run writes 5 MB, and the collector takes no events when less than 64 MiB are free.
LEAST_FREE_MIB = 200
ANOTHER_FOLDER = "choose another folder (make demo ARGS=--data-dir=FOLDER)"


@dataclass(frozen=True, slots=True)
class DataDir:
    """The folder and its parts."""

    root: Path

    @property
    def ray(self) -> Path:
        """Ray's temp directory: sessions with their logs; emptied by each run."""
        return self.root / "ray"

    @property
    def storage(self) -> Path:
        """The object storage of the local backend: the only state of the history server."""
        return self.root / "storage"

    @property
    def collector(self) -> Path:
        """What the collector has on disk before it is stored; emptied by each run."""
        return self.root / "collector"

    @property
    def cache(self) -> Path:
        """The history server's local cache of compiled sessions."""
        return self.root / "cache"

    @property
    def logs(self) -> Path:
        """Output of the processes that the demo starts."""
        return self.root / "logs"

    def log(self, name: str) -> Path:
        """The file for one process's output."""
        return self.logs / f"{name}.log"

    def begin_run(self) -> None:
        """Empty what belongs to one run; stored sessions and the cache stay."""
        try:
            for part in (self.ray, self.collector, self.logs):
                shutil.rmtree(part, ignore_errors=True)
            for part in (self.ray, self.collector, self.logs, self.storage, self.cache):
                part.mkdir(exist_ok=True)
        except OSError as error:
            raise _unusable(self.root, error) from error


@contextmanager
def prepare(root: Path) -> Iterator[DataDir]:
    """Make or reuse the folder, ours alone until the end of the context or of the process."""
    root = root.absolute()
    with _claim(root):
        data = DataDir(root)
        data.begin_run()
        yield data


def _claim(root: Path) -> IO[str]:
    """Lock the folder; refuse one with somebody else's files, and one of a running demo."""
    try:
        if root.exists() and not root.is_dir():
            raise DemoError(f"{root} is not a folder: {ANOTHER_FOLDER}")
        if root.exists() and any(root.iterdir()) and not (root / MARKER).exists():
            raise DemoError(f"{root} holds files that are not the demo's: {ANOTHER_FOLDER}")
        root.mkdir(parents=True, exist_ok=True)
        free_mib = shutil.disk_usage(root).free >> 20
        if free_mib < LEAST_FREE_MIB:
            raise DemoError(
                f"{root} has {free_mib} MiB free, {LEAST_FREE_MIB} are needed: {ANOTHER_FOLDER}"
            )
        claim = (root / MARKER).open("w")
    except OSError as error:
        raise _unusable(root, error) from error
    try:
        claim.write("Data of `make demo`; may be deleted.\n")
        claim.flush()
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        claim.close()
        raise DemoError(f"another demo uses {root}: end it, or {ANOTHER_FOLDER}") from error
    except OSError as error:
        claim.close()
        raise _unusable(root, error) from error
    return claim


def _unusable(root: Path, error: OSError) -> DemoError:
    return DemoError(f"cannot write to {root}: {error.strerror}; {ANOTHER_FOLDER}")


def check_port_free(port: int) -> None:
    """Refuse before anything is started when the history server could not listen."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise DemoError(
                f"port {port} on 127.0.0.1 cannot be used ({error.strerror}): "
                "end what listens there, or choose another (make demo ARGS=--port=PORT)"
            ) from error
