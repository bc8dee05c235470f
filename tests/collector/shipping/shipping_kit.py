"""What the tests of the shipping side share: a session directory, a journal on disk, a reader."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from collector.journal.segments import HotBlock, Segment, category_path
from collector.ray_session import RaySession
from collector.shipping.parts import ShippingParts, ShippingSettings
from collector.shipping.session_shipping import FinishReport, SessionShipping
from collector.shipping.uploads import Shipper
from collector.tails.frames import decompress
from storage.backend import Backend, read_all
from storage.layout import Category, SessionRef, hot_segment_key, manifest_key
from storage.wire import LogEntry, NodeManifest, decode_manifest

SESSION = "session_2026-11-30_19-57-10_681566_45"
NODE = "ab" * 28
REF = SessionRef("ml", "demo", SESSION)
FAST = ShippingSettings(scan_interval_s=0.01, hot_interval_s=0.02)


def ray_session(tmp_path: Path, *, node_id: str = NODE) -> RaySession:
    """A session directory with an empty logs folder."""
    directory = tmp_path / "ray" / SESSION
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    return RaySession(SESSION, directory, node_id, directory / "logs", tmp_path / "ray")


def event_line(number: int) -> bytes:
    """A line of about 400 bytes, none like another."""
    return b'{"eventId":"%012d","eventType":"X","text":"%s"}\n' % (number, b"v" * 350)


@dataclass
class DiskJournal:
    """A journal with the same contract as the collector's, in which a test has the say."""

    root: Path
    node_id: str = NODE
    hot_upto: dict[Path, int] = field(default_factory=dict)
    segments: dict[Path, Segment | None] = field(default_factory=dict)
    categories: dict[Path, Category] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def append(self, name: int, lines: Sequence[bytes], category: Category = "node_events") -> Path:
        """Write lines to the segment that was created at `name`."""
        path = self.root / SESSION / self.node_id / category_path(category) / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with self.lock, path.open("ab") as file:
            file.write(b"".join(lines))
            self.segments.setdefault(path, None)
            self.categories[path] = category
        return path

    def seal(self, path: Path, *, recovered: bool = False) -> Segment:
        """No more lines will come."""
        data = path.read_bytes()
        segment = Segment(
            path=path,
            session=SESSION,
            node_id=self.node_id,
            category=self.categories.get(path, "node_events"),
            created_ns=int(path.stem),
            events=data.count(b"\n"),
            size_bytes=len(data),
            recovered=recovered,
        )
        with self.lock:
            self.segments[path] = segment
        return segment

    def reopened(self) -> DiskJournal:
        """The journal of the next process: all that is on disk is sealed and recovered."""
        journal = DiskJournal(self.root, self.node_id)
        for path in sorted(self.root.rglob("*.jsonl")):
            journal.categories[path] = self.categories[path]
            journal.seal(path, recovered=True)
        return journal

    def hot_blocks(self) -> Iterator[HotBlock]:
        with self.lock:
            paths = list(self.segments.items())
        for path, segment in paths:
            if segment is not None and segment.recovered:
                continue
            start, end = self.hot_upto.get(path, 0), path.stat().st_size
            if start < end:
                category = self.categories[path]
                yield HotBlock(path, SESSION, self.node_id, category, start, end)

    def mark_hot(self, path: Path, upto: int) -> None:
        self.hot_upto[path] = upto

    def sealed(self) -> Sequence[Segment]:
        with self.lock:
            return [segment for segment in self.segments.values() if segment is not None]

    def remove(self, segment: Segment) -> None:
        with self.lock:
            del self.segments[segment.path]
        segment.path.unlink()


@dataclass
class Rig:
    """One collector's shipping side on one directory; `again` is the next process."""

    tmp_path: Path
    backend: Backend
    session: RaySession
    journal: DiskJournal
    settings: ShippingSettings = FAST
    ref: SessionRef = REF
    shippers: list[Shipper] = field(default_factory=list)
    current: SessionShipping | None = None

    @classmethod
    def make(cls, tmp_path: Path, backend: Backend, *, settings: ShippingSettings = FAST) -> Rig:
        """A fresh one."""
        journal = DiskJournal(tmp_path / "data")
        return cls(tmp_path, backend, ray_session(tmp_path), journal, settings)

    @property
    def logs(self) -> Path:
        """The session's logs folder."""
        return self.session.logs_dir

    def shipping(self) -> SessionShipping:
        """A new process' shipping."""
        shipper = Shipper(self.backend, threads=3, first_pause_s=0.01)
        self.shippers.append(shipper)
        self.current = SessionShipping(
            ShippingParts(
                ref=self.ref,
                session=self.session,
                role="head",
                collector_version="test",
                journal=self.journal,
                shipper=shipper,
                state_dir=self.tmp_path / "state",
                settings=self.settings,
            )
        )
        return self.current

    def kill(self) -> None:
        """End the process' threads where they are, as a SIGKILL does: nothing is tidied up."""
        shipping = self.current
        assert shipping is not None
        shipping._stop.set()
        shipping._shipping.jobs.wake.set()
        if shipping._thread is not None:
            shipping._thread.join()
        shipping._shipping.jobs.cancel()
        self.shippers[-1].close()
        for thread in self.shippers[-1]._threads:
            thread.join()
        self.journal = self.journal.reopened()

    def finish(self, *, within_s: float = 20.0) -> FinishReport:
        """End the current shipping in order, or a new one."""
        shipping = self.current if self.current is not None else self.shipping()
        return shipping.finish(deadline_s=time.monotonic() + within_s)

    def manifest(self) -> NodeManifest:
        """What storage tells."""
        key = manifest_key(self.ref, self.session.node_id)
        return decode_manifest(read_all(self.backend, key, max_bytes=2**30))

    def logs_in_storage(self) -> dict[str, bytes]:
        """Every log as a reader finds it through the manifest."""
        return {entry.path: self.log_bytes(entry) for entry in self.manifest().logs}

    def log_bytes(self, entry: LogEntry) -> bytes:
        """One log's content; its frames must follow each other without a gap."""
        if entry.key is not None:
            return read_all(self.backend, entry.key, max_bytes=2**31)
        content, end = b"", 0
        for frame in entry.frames:
            assert frame.log_start == end
            end += frame.log_length
            content += self.frame(frame.seq, frame.object_start, frame.object_length)
            assert len(content) == end
        return content

    def frame(self, seq: int, start: int, length: int) -> bytes:
        """One frame of a live segment by one ranged get."""
        key = hot_segment_key(self.ref, self.session.node_id, seq)
        data = b"".join(self.backend.get_range(key, start, length))
        assert len(data) == length
        return decompress(data, raw_bytes=_content_bytes(data))

    def events_in_storage(self) -> list[bytes]:
        """Every event line as a reader finds it, with repetitions if there are any."""
        manifest = self.manifest()
        lines: list[bytes] = []
        for file in manifest.events.event_files:
            data = read_all(self.backend, file.key, max_bytes=2**30)
            assert len(data) == file.size_bytes
            found = gzip.decompress(data).splitlines(keepends=True)
            assert len(found) == file.events
            lines += found
        for frame in manifest.hot_events:
            found = self.frame(frame.seq, frame.object_start, frame.object_length).splitlines(
                keepends=True
            )
            assert len(found) == frame.events
            lines += found
        return lines


def _content_bytes(data: bytes) -> int:
    return zstandard.get_frame_parameters(data).content_size


def eventually(condition: Callable[[], bool], *, within_s: float = 10.0) -> None:
    """Wait until it holds; fails after `within_s`. Errors while it is not so yet are no failure."""
    deadline = time.monotonic() + within_s
    error: Exception | None = None
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except Exception as caught:
            error = caught
        time.sleep(0.01)
    raise AssertionError(f"did not happen within {within_s} s: {error!r}")
