"""Reviews over TLS from a process of its own, lean, so that the webhook has the cores.

`python -m tests.webhook.review_load PLAN` with a `Plan` as JSON; prints a `Report` as JSON. Each
thread has one kept connection, as an API server's idle pool; a connection that the server
announced to close is left for a new one, and nothing is ever sent twice.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
import time

import msgspec

from tests.webhook import review_kit
from tests.webhook.review_kit import ROOT, SERVER_NAME

_HEAD = (
    b"POST /mutate/namespace?timeout=5s HTTP/1.1\r\nHost: " + SERVER_NAME.encode() + b"\r\n"
    b"User-Agent: kube-apiserver-admission\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, */*\r\nAccept-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
)


class Plan(msgspec.Struct):
    """What to send."""

    ports: list[int]
    """Connections go to the first; after an announced close to the next, if there is one."""
    ca_file: str
    connections: int = 8
    count: int = 1000
    per_s: float = 0.0
    """0: as fast as answers come."""
    reviews_per_connection: int = 0
    """0: as many as come."""


class Report(msgspec.Struct):
    """What came back."""

    seconds: float
    times_ms: list[float]
    faults: list[str]
    certificates: int
    """How many different ones were seen."""

    def part_ms(self, part: float) -> float:
        """The time within which this part of the answers came."""
        ordered = sorted(self.times_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def start(plan: Plan) -> subprocess.Popen[bytes]:
    """Start to send, in a process of its own."""
    command = [sys.executable, "-m", "tests.webhook.review_load"]
    return subprocess.Popen(
        [*command, msgspec.json.encode(plan).decode()], cwd=ROOT, stdout=subprocess.PIPE
    )


def report_of(process: subprocess.Popen[bytes], timeout_s: float = 120.0) -> Report:
    """Wait for its end."""
    output, _ = process.communicate(timeout=timeout_s)
    return msgspec.json.decode(output, type=Report)


class _Load:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._context = ssl.create_default_context(cafile=plan.ca_file)
        body = review_kit.body(review_kit.review(review_kit.pod()))
        self._request = _HEAD % len(body) + body
        self._lock = threading.Lock()
        self._next = 0
        self._begin_s = 0.0
        self.times_ms: list[float] = []
        self.faults: list[str] = []
        self.certificates: set[bytes] = set()

    def run(self) -> Report:
        threads = [
            threading.Thread(target=self._send, args=(number,))
            for number in range(self._plan.connections)
        ]
        self._begin_s = time.perf_counter() + 0.1
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took_s = time.perf_counter() - self._begin_s
        return Report(took_s, self.times_ms, self.faults, len(self.certificates))

    def _send(self, number: int) -> None:
        del number
        wire: ssl.SSLSocket | None = None
        port, sent = 0, 0
        while (due_s := self._due_s()) is not None:
            wait_s = due_s - time.perf_counter()
            if wait_s > 0:
                time.sleep(wait_s)
            started_s = due_s if self._plan.per_s and wait_s < 0 else time.perf_counter()
            try:
                if wire is None:
                    wire = self._connect(self._plan.ports[min(port, len(self._plan.ports) - 1)])
                wire.sendall(self._request)
                is_last = _answered(wire)
            except (OSError, ValueError) as error:
                self.faults.append(f"{type(error).__name__}: {error}")
                wire = None
                continue
            self.times_ms.append((time.perf_counter() - started_s) * 1000)
            sent += 1
            port += is_last
            if is_last or sent == self._plan.reviews_per_connection:
                wire.close()
                wire, sent = None, 0

    def _due_s(self) -> float | None:
        with self._lock:
            number, self._next = self._next, self._next + 1
        if number >= self._plan.count:
            return None
        return self._begin_s + (number / self._plan.per_s if self._plan.per_s else 0.0)

    def _connect(self, port: int) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", port), timeout=5)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = self._context.wrap_socket(plain, server_hostname=SERVER_NAME)
        self.certificates.add(wire.getpeercert(binary_form=True) or b"")
        return wire


def _answered(wire: ssl.SSLSocket) -> bool:
    """Read one answer; whether the connection ends with it. Raises on anything but a patch."""
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += _more(wire)
    head = data[:end].lower()
    if not head.startswith(b"http/1.1 200 "):
        raise ValueError(head.partition(b"\r\n")[0].decode())
    length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(data) < end + 4 + length:
        data += _more(wire)
    if b'"patchType":"JSONPatch"' not in data:
        raise ValueError("an answer without a patch")
    return b"connection: close" in head


def _more(wire: ssl.SSLSocket) -> bytes:
    chunk = wire.recv(65536)
    if not chunk:
        raise ConnectionError("closed without an answer")
    return chunk


def main(plan: str) -> None:
    """Send, and print the report."""
    report = _Load(msgspec.json.decode(plan, type=Plan)).run()
    sys.stdout.buffer.write(msgspec.json.encode(report))
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
