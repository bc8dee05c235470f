"""The one folder in which the demo keeps everything, and the checks before anything starts."""

from __future__ import annotations

import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from demo.progress import DemoError

MARKER = ".ray-history-demo"


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


def prepare(root: Path) -> DataDir:
    """Make or reuse the folder; refuse a folder with somebody else's files."""
    root = root.absolute()
    if root.exists() and not root.is_dir():
        raise DemoError(f"{root} is not a folder: choose another with --data-dir")
    if root.exists() and any(root.iterdir()) and not (root / MARKER).exists():
        raise DemoError(
            f"{root} holds files that are not the demo's: choose another folder with --data-dir"
        )
    data = DataDir(root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        (root / MARKER).write_text("Data of `make demo`; may be deleted.\n")
        for part in (data.ray, data.collector, data.logs):
            shutil.rmtree(part, ignore_errors=True)
        for part in (data.ray, data.collector, data.logs, data.storage, data.cache):
            part.mkdir(exist_ok=True)
    except OSError as error:
        raise DemoError(f"cannot write to {root}: {error.strerror}") from error
    return data


def check_port_free(port: int) -> None:
    """Refuse before anything is started when the history server could not listen."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise DemoError(
                f"port {port} on 127.0.0.1 cannot be used ({error.strerror}): "
                "end what listens there, or choose another with --port"
            ) from error
