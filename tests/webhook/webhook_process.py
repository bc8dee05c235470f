"""The webhook as a process of its own over a cluster in memory, and a handle on it.

`python -m tests.webhook.webhook_process --FLAG...` is `webhook serve` but for the API server.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trustme

from tests.webhook.fakes import FakeAccounts, FakeEvents, FakeLookups
from tests.webhook.review_kit import ROOT, SERVER_NAME
from webhook.assembly import assemble
from webhook.logs import set_up
from webhook.metrics import WebhookMetrics
from webhook.serving import Parts, Server
from webhook.settings import Settings
from webhook.settings_sources import read_settings


class Certificates:
    """A CA and the pair of files that the webhook reads, exchanged as a volume does it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self._serial = 0
        folder.mkdir()
        self.ca_file = folder / "ca.crt"
        self._authority.cert_pem.write_to_path(self.ca_file)
        self.rotate()

    def rotate(self) -> None:
        """Issue a new certificate and put it in place with one rename."""
        leaf = self._authority.issue_cert(SERVER_NAME, key_type=trustme.KeyType.ECDSA)
        self._serial += 1
        version = self.folder / f"..{self._serial}"
        version.mkdir()
        leaf.private_key_pem.write_to_path(version / "tls.key")
        (version / "tls.crt").write_bytes(b"".join(p.bytes() for p in leaf.cert_chain_pems))
        fresh = self.folder / "..data_tmp"
        fresh.symlink_to(version.name)
        fresh.rename(self.folder / "..data")
        for name in ("tls.crt", "tls.key"):
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")


class WebhookProcess:
    """A running webhook."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        certificates: Certificates | None = None,
        program: tuple[str, ...] = ("tests.webhook.webhook_process",),
    ) -> None:
        self.certificates = certificates or Certificates(folder / "tls")
        self.port, self.health_port = free_port(), free_port()
        self.log = folder / f"webhook-{self.port}.log"
        command = [
            *(sys.executable, "-m", *program),
            *(f"--listen-port={self.port}", f"--listen-health-port={self.health_port}"),
            f"--tls-cert-file={self.certificates.folder}/tls.crt",
            f"--tls-key-file={self.certificates.folder}/tls.key",
            *("--collector-image=collector:1", "--tls-reload-every-seconds=0.2", *flags),
        ]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def wait_ready(self) -> WebhookProcess:
        """Wait until /readyz says yes."""
        self.wait_status("/readyz", 200)
        return self

    def wait_status(self, path: str, status: int, timeout_s: float = 30.0) -> str:
        """Wait until a probe answers so; its text."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            assert self.process.poll() is None, self.log.read_text()
            found, text = self.probe(path)
            if found == status:
                return text
            time.sleep(0.05)
        raise AssertionError(f"{path} never said {status}: {self.log.read_text()}")

    def probe(self, path: str) -> tuple[int, str]:
        """Ask the health port; 0 while nobody listens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def lines(self) -> list[dict[str, Any]]:
        """What it logged."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def metric(self, line: str) -> float:
        """One value of /metrics; `line` is all that stands before it."""
        (value,) = (
            shown.removeprefix(line)
            for shown in self.probe("/metrics")[1].splitlines()
            if shown.startswith(f"{line} ")
        )
        return float(value)

    def wait_reviews(self, count: int) -> None:
        """Wait until so many are in the log."""
        deadline_s = time.monotonic() + 30
        while self.reviews() < count:
            assert time.monotonic() < deadline_s, self.log.read_text()
            time.sleep(0.02)

    def reviews(self) -> int:
        """How many it answered."""
        return self.log.read_bytes().count(b'"message":"review"')

    def worker_pid(self) -> int:
        """The process that answers."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0])

    def stop(self, timeout_s: float = 30.0) -> int:
        """End it; its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            raise


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _make(settings: Settings) -> Parts:
    return assemble(
        settings,
        metrics=WebhookMetrics(),
        lookups=FakeLookups(),
        accounts=FakeAccounts(),
        events=FakeEvents(),
        checks={},
        start=lambda: None,
        stop=lambda: None,
    )


def main(argv: Sequence[str]) -> None:
    """Serve."""
    settings = read_settings(argv, {})
    set_up(level=settings.log_level)
    Server(settings, _make).run()


if __name__ == "__main__":
    main(sys.argv[1:])
