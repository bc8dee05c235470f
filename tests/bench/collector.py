"""How fast a collector process takes events, how soon it answers, and what memory it needs."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench.figures import Bench, Figure, benchmark
from tests.collector.collector_process import CollectorProcess, RayDouble
from tests.collector.events import task_body

INGEST_CONNECTIONS = 2
INGEST_EVENTS = 200_000
INGEST_BATCH = 1_000
"""About what Ray has waiting when it sends as fast as it can."""
PACED_BATCH = 100
PACED_S = 5.0
MIB = 2**20

_number = count(step=INGEST_BATCH)


@benchmark("collector")
def take_events(bench: Bench) -> Iterator[Figure]:
    """One collector with a real journal and store on the same disk; the sender shares its cores."""
    ray = RayDouble(bench.folder / "ray")
    ray.start()
    collector = CollectorProcess(
        ray, bench.folder / "store", bench.folder / "collector.log", "--role=Head"
    )
    try:
        collector.wait_message("session found")
        time.sleep(2.0)
        yield Figure("collector_rss_idle_mib", _rss_mib(collector), "MiB", at_most=100)
        yield Figure("collector_ingest_events_per_s", _ingest(collector), "1/s", at_least=50_000)
        _, cpu = _paced_ms(collector, events_per_s=12_000)
        yield Figure("collector_cpu_at_12k_events_per_s", cpu, "cores")
        times_ms, _ = _paced_ms(collector, events_per_s=20_000)
        yield Figure("collector_ack_at_20k_median_ms", _part(times_ms, 0.5), "ms")
        yield Figure("collector_ack_at_20k_p99_ms", _part(times_ms, 0.99), "ms", at_most=10)
        peak_mib = collector.rss_bytes() / MIB
        yield Figure("collector_rss_loaded_mib", peak_mib, "MiB", at_most=150)
    finally:
        collector.kill()
        ray.close()


class _Sender:
    """One connection with one POST in flight, as a Ray agent has; refusals are faults here."""

    def __init__(self, collector: CollectorProcess) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(collector.url).netloc, timeout=10)

    def post(self, body: bytes) -> None:
        self._connection.request("POST", "/v1/events", body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == 200, f"refused with {answer.status}"

    def close(self) -> None:
        self._connection.close()


def _ingest(collector: CollectorProcess) -> float:
    """Events per second, each connection sending as fast as it is answered."""
    share = INGEST_EVENTS // INGEST_BATCH // INGEST_CONNECTIONS
    bodies = [
        [task_body(next(_number), INGEST_BATCH) for _ in range(share)]
        for _ in range(INGEST_CONNECTIONS)
    ]
    ready = threading.Barrier(INGEST_CONNECTIONS + 1)

    def send(mine: list[bytes]) -> None:
        sender = _Sender(collector)
        ready.wait()
        for body in mine:
            sender.post(body)
        sender.close()

    with ThreadPoolExecutor(INGEST_CONNECTIONS) as pool:
        sending = [pool.submit(send, mine) for mine in bodies]
        ready.wait()
        begin_s = time.perf_counter()
        for one in sending:
            one.result()
        return INGEST_EVENTS / (time.perf_counter() - begin_s)


def _paced_ms(collector: CollectorProcess, *, events_per_s: int) -> tuple[list[float], float]:
    """How long each answer took at a steady rate, and the cores that the collector used."""
    posts = int(events_per_s * PACED_S / PACED_BATCH)
    # Made before, so that the sender takes little of the cores.
    bodies = [task_body(next(_number), PACED_BATCH) for _ in range(posts)]
    sender, times_ms = _Sender(collector), []
    cpu_s, begin_s = _cpu_s(collector), time.perf_counter()
    for number, body in enumerate(bodies):
        due_s = begin_s + number * PACED_BATCH / events_per_s
        time.sleep(max(0.0, due_s - time.perf_counter()))
        sent_s = time.perf_counter()
        sender.post(body)
        times_ms.append((time.perf_counter() - sent_s) * 1000)
    took_s = time.perf_counter() - begin_s
    sender.close()
    assert took_s < PACED_S * 1.1, f"{events_per_s} events/s took {took_s:.1f} s"
    return times_ms, (_cpu_s(collector) - cpu_s) / took_s


def _cpu_s(collector: CollectorProcess) -> float:
    fields = Path(f"/proc/{collector.process.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _rss_mib(collector: CollectorProcess) -> float:
    status = Path(f"/proc/{collector.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def _part(times_ms: list[float], part: float) -> float:
    return sorted(times_ms)[int(len(times_ms) * part)]
