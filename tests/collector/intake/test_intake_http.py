"""The HTTP side of the intake, with a real server, disk thread and journal."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from collector.intake import bodies as bodies_module
from collector.intake import http as intake_module
from collector.intake.bodies import BodyReader
from collector.intake.envelope import Reason
from collector.intake.http import Intake, Refusal, events_app, probe_routes
from collector.lifecycle.listeners import listen
from tests.collector.events import body as body_of
from tests.collector.events import real_events, task_body, task_event
from tests.collector.intake.intake_rig import IntakeRig, stored_ids

HEADERS = {"Content-Type": "application/json"}


class Server:
    """A running intake."""

    def __init__(self, rig: IntakeRig, intake: Intake, url: str) -> None:
        self.rig = rig
        self.intake = intake
        self.url = url
        self.why_not_ready: str | None = None
        self.client = aiohttp.ClientSession(headers=HEADERS)

    async def post(self, data: bytes, **headers: str) -> aiohttp.ClientResponse:
        async with self.client.post(
            f"{self.url}/v1/events", data=io.BytesIO(data), headers=headers
        ) as answer:
            await answer.read()
            return answer

    async def status(self, data: bytes, **headers: str) -> int:
        return (await self.post(data, **headers)).status


@asynccontextmanager
async def serving(data_dir: Path, *, max_body_bytes: int = 1 << 28) -> AsyncIterator[Server]:
    rig = IntakeRig(data_dir)
    disk = rig.disk_thread()
    disk.start()
    reader = BodyReader(data_dir / "spool", rig.quarantine, max_bytes=max_body_bytes)
    intake = Intake(disk=disk, bodies=reader, metrics=rig.metrics)
    holder: list[Server] = []
    probes = probe_routes(metrics=rig.metrics, ready=lambda: holder[0].why_not_ready)
    runner = await listen(events_app(intake, probes), address="127.0.0.1", port=0, what="events")
    server = Server(rig, intake, f"http://127.0.0.1:{runner.addresses[0][1]}")
    holder.append(server)
    try:
        yield server
    finally:
        await server.client.close()
        await runner.cleanup()
        await asyncio.to_thread(disk.close)


def run(
    data_dir: Path, work: Callable[[Server], Awaitable[None]], *, max_body_bytes: int = 1 << 28
) -> None:
    async def main() -> None:
        async with serving(data_dir, max_body_bytes=max_body_bytes) as server:
            await work(server)

    asyncio.run(main())


def test_stored_before_the_answer(tmp_path: Path) -> None:
    """When 200 arrives the events are in the file, on either spelling of the path."""

    async def work(server: Server) -> None:
        assert await server.status(body_of(*real_events())) == 200
        assert len(stored_ids(tmp_path)) == len({e["eventId"] for e in real_events()})
        async with server.client.post(f"{server.url}/v1/events/", data=task_body(0, 3)) as answer:
            assert answer.status == 200

    run(tmp_path, work)


@pytest.mark.parametrize(
    "data",
    [b"", b"not json", b"{}", b"null", b"[1, 2]", b"[" * 5000, b"\xff\xfe", b"[]", b'[{"a":1}]'],
)
def test_no_content_is_ever_refused(tmp_path: Path, data: bytes) -> None:
    """Ray would send it again for ever, and everything behind it would wait."""

    async def work(server: Server) -> None:
        assert await server.status(data) == 200
        assert await server.status(data, **{"Content-Type": "text/plain"}) == 200
        assert await server.status(task_body(0, 2)) == 200
        assert len(stored_ids(tmp_path)) == 2

    run(tmp_path, work)


def test_compressed_bodies_are_read_and_broken_ones_quarantined(tmp_path: Path) -> None:
    """Ray sends none; whoever does gets no error."""

    async def work(server: Server) -> None:
        packed = gzip.compress(task_body(0, 5))
        assert await server.status(packed, **{"Content-Encoding": "gzip"}) == 200
        assert len(stored_ids(tmp_path)) == 5
        assert await server.status(b"no gzip at all", **{"Content-Encoding": "gzip"}) == 200
        assert (
            server.rig.metric("events_quarantined_total", reason=Reason.BODY_UNDECODABLE.value) == 1
        )

    run(tmp_path, work)


def test_chunked_bodies_are_read(tmp_path: Path) -> None:
    """Without a Content-Length."""

    async def chunks() -> AsyncIterator[bytes]:
        data = task_body(0, 50)
        for start in range(0, len(data), 1000):
            yield data[start : start + 1000]

    async def work(server: Server) -> None:
        async with server.client.post(f"{server.url}/v1/events", data=chunks()) as answer:
            assert answer.status == 200
        assert len(stored_ids(tmp_path)) == 50

    run(tmp_path, work)


def test_large_bodies_go_through_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the file is gone afterwards."""
    monkeypatch.setattr(bodies_module, "IN_MEMORY_BYTES", 10_000)

    async def work(server: Server) -> None:
        assert await server.status(task_body(0, 500)) == 200
        assert len(stored_ids(tmp_path)) == 500
        assert not list((tmp_path / "spool").iterdir())

    run(tmp_path, work)


def test_a_body_over_the_limit_goes_to_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start is kept within the bound, the rest is read and dropped, the answer is 200."""
    monkeypatch.setattr(bodies_module, "IN_MEMORY_BYTES", 10_000)

    async def work(server: Server) -> None:
        assert await server.status(b"[" + b"x" * 5_000_000) == 200
        (kept,) = (tmp_path / "quarantine").glob("*.body")
        assert kept.stat().st_size == 200_000
        assert server.rig.metric("events_quarantined_total", reason="body_too_large") == 1
        for _ in range(20):
            assert await server.status(b"[" + b"y" * 300_000) == 200
        assert server.rig.quarantine.size_bytes <= 1024 * 1024
        assert not list((tmp_path / "spool").iterdir())

    run(tmp_path, work, max_body_bytes=200_000)


def test_a_broken_off_post_stores_and_quarantines_nothing(tmp_path: Path) -> None:
    """The sender went away in the middle; it will send all of it again."""

    async def work(server: Server) -> None:
        host, port = server.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        data = task_body(0, 10)
        head = f"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data[:-100])
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()
        await asyncio.sleep(0.2)
        assert not stored_ids(tmp_path)
        assert not (tmp_path / "quarantine" / "events.jsonl").exists()
        assert await server.status(data) == 200
        assert len(stored_ids(tmp_path)) == 10
        assert not server.intake.busy

    run(tmp_path, work)


def test_a_full_disk_says_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Retry-After, counted; stored once there is room."""

    async def work(server: Server) -> None:
        monkeypatch.setattr("collector.journal.journal.free_bytes", lambda _: -1)
        answer = await server.post(task_body(0, 10))
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert server.rig.metric("refused_total", reason=Refusal.DISK_FULL.value) == 1
        monkeypatch.undo()
        assert await server.status(task_body(0, 10)) == 200
        assert set(stored_ids(tmp_path).values()) == {1}

    run(tmp_path, work)


def test_slow_senders_keep_nobody_waiting(tmp_path: Path) -> None:
    """Many connections whose small body never ends; another POST is answered at once."""

    async def check(server: Server) -> None:
        host, port = server.url.removeprefix("http://").split(":")
        writers = []
        for _ in range(intake_module.MAX_AT_ONCE * 3):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n[")
            await writer.drain()
            writers.append(writer)
        await asyncio.sleep(0.1)
        begin_s = time.monotonic()
        assert await server.status(task_body(0, 5)) == 200
        assert time.monotonic() - begin_s < intake_module.SLOT_WAIT_S / 2
        for writer in writers:
            writer.close()

    run(tmp_path, check)
    assert len(stored_ids(tmp_path)) == 5


def test_after_the_drain_posts_are_refused(tmp_path: Path) -> None:
    """What comes now would never be shipped."""

    async def work(server: Server) -> None:
        server.intake.close()
        assert (await server.post(task_body(0, 1))).status == 503
        assert server.rig.metric("refused_total", reason=Refusal.DRAINED.value) == 1

    run(tmp_path, work)


class SlowDisk:
    """The real write, each after a pause."""

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s
        self._real = os.pwrite

    def __call__(self, handle: int, data: memoryview, offset: int) -> int:
        time.sleep(self.pause_s)
        return self._real(handle, data, offset)


def test_a_slow_disk_and_a_sender_that_gives_up_store_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray gives up after 3 s and resends what a 4 s write stored; here ten times as fast."""
    monkeypatch.setattr("collector.journal.active.os.pwrite", SlowDisk(0.4))

    async def work(server: Server) -> None:
        timeout = aiohttp.ClientTimeout(total=0.3)
        tries = 0
        for number in range(3):
            data = task_body(number * 100, 100)
            while True:
                tries += 1
                try:
                    async with server.client.post(
                        f"{server.url}/v1/events", data=data, timeout=timeout
                    ) as answer:
                        assert answer.status == 200
                        break
                except TimeoutError:
                    await asyncio.sleep(0.01)
        assert tries > 3
        assert len(stored_ids(tmp_path)) == 300
        assert set(stored_ids(tmp_path).values()) == {1}

    run(tmp_path, work)


def test_a_stuck_disk_refuses_in_time_and_keeps_memory_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a few bodies wait; further ones are told to come again before Ray gives up."""
    monkeypatch.setattr("collector.journal.active.os.pwrite", SlowDisk(1.0))
    monkeypatch.setattr(intake_module, "SLOT_WAIT_S", 0.2)

    async def work(server: Server) -> None:
        posts = [server.status(task_body(start, 10)) for start in range(0, 400, 10)]
        statuses = await asyncio.gather(*posts)
        taken = statuses.count(200)
        assert intake_module.MAX_AT_ONCE <= taken <= 2 * intake_module.MAX_AT_ONCE
        assert statuses.count(503) == 40 - taken
        assert len(stored_ids(tmp_path)) == taken * 10

    run(tmp_path, work)


def test_a_fault_of_ours_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error refuses this batch; the next one is taken."""

    async def work(server: Server) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("unexpected")

        monkeypatch.setattr(server.rig.journal, "append", broken)
        answer = await server.post(task_body(0, 1))
        assert answer.status == 503
        assert answer.content_length == 0
        monkeypatch.undo()
        assert await server.status(task_body(0, 1)) == 200

    run(tmp_path, work)


def test_probes_and_metrics(tmp_path: Path) -> None:
    """On the events port too."""

    async def work(server: Server) -> None:
        await server.post(task_body(0, 7))
        async with server.client.get(f"{server.url}/healthz") as answer:
            assert answer.status == 200
        async with server.client.get(f"{server.url}/readyz") as answer:
            assert answer.status == 200
        server.why_not_ready = "draining"
        async with server.client.get(f"{server.url}/readyz") as answer:
            assert (answer.status, await answer.text()) == (503, "draining\n")
        async with server.client.get(f"{server.url}/metrics") as answer:
            text = await answer.text()
            assert "rayhistory_collector_events_stored_total 7.0" in text
            assert answer.content_type == "text/plain"
        async with server.client.get(f"{server.url}/v1/events") as answer:
            assert answer.status == 405
        async with server.client.post(f"{server.url}/other", data=b"") as answer:
            assert answer.status == 404

    run(tmp_path, work)


def test_no_event_content_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Events carry environment variables with secrets."""
    caplog.set_level("DEBUG")
    secret = "hunter2"
    bad = task_event(1) | {"sessionName": secret, "message": secret}

    async def work(server: Server) -> None:
        await server.post(body_of(bad, task_event(2) | {"message": secret}, secret))
        await server.post(json.dumps({secret: secret}).encode())

    run(tmp_path, work)
    assert "quarantined" in caplog.text
    assert secret not in " ".join(str(vars(record)) for record in caplog.records)
