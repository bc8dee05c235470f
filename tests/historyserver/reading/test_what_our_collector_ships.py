"""What our collector's shipping really writes is read back whole, live and at the end."""

from __future__ import annotations

from pathlib import Path

from historyserver.reading.damage import DamageLog
from historyserver.reading.events import open_events
from historyserver.reading.frames import SourceChangedError
from historyserver.reading.locate import locate
from historyserver.reading.logs import read_log
from historyserver.reading.source import SessionSource
from storage.local import LocalBackend
from tests.collector.shipping.shipping_kit import REF, Rig, event_line, eventually

LINES = [event_line(number) for number in range(200)]
LOG = b"".join(b"line %d of a log\n" % number for number in range(20_000))


def content(store: LocalBackend, source: SessionSource) -> tuple[set[bytes], dict[str, bytes]]:
    damage = DamageLog(source.damage)
    events = {
        line
        for file in source.event_files
        for block in open_events(store, file, damage)
        for line in block.splitlines(keepends=True)
    }
    logs = {
        log.path: b"".join(read_log(store, log.parts, damage=damage)) for log in source.log_files
    }
    assert not damage.items
    return events, logs


def content_now(store: LocalBackend) -> tuple[set[bytes], dict[str, bytes]] | None:
    """None when something was moved meanwhile: whoever reads a running session asks again."""
    try:
        return content(store, locate(store, REF))
    except SourceChangedError:
        return None


def test_what_is_shipped_is_read_while_ray_runs_and_after(
    store: LocalBackend, tmp_path: Path
) -> None:
    """The same content from live segments and from final objects, and never less in between."""
    rig = Rig.make(tmp_path, store)
    rig.journal.append(1, LINES[:100])
    (rig.logs / "raylet.out").write_bytes(LOG[:100_000])
    (rig.logs / "events").mkdir()
    (rig.logs / "events" / "event_GCS.log").write_bytes(b'{"event_id": "1"}\n')
    rig.shipping().start()
    expected = (
        set(LINES[:100]),
        {"raylet.out": LOG[:100_000], "events/event_GCS.log": b'{"event_id": "1"}\n'},
    )
    eventually(lambda: content_now(store) == expected)
    live = locate(store, REF)
    assert (live.generation, live.state) == ("ours", "running")
    rig.journal.seal(rig.journal.append(1, LINES[100:]))
    with (rig.logs / "raylet.out").open("ab") as file:
        file.write(LOG[100_000:])
    assert rig.finish().complete
    done = locate(store, REF)
    events, logs = content(store, done)
    assert events == set(LINES)
    assert logs["raylet.out"] == LOG
    assert {part.framing for log in done.log_files for part in log.parts} == {"plain"}
    assert all(file.framing == "gzip" for file in done.event_files)
    assert [report.log_gaps for report in done.node_reports] == [0]


def test_what_a_killed_collector_left_is_read(store: LocalBackend, tmp_path: Path) -> None:
    """No end, no final objects: the live segments are all there is."""
    rig = Rig.make(tmp_path, store)
    rig.journal.append(1, LINES)
    (rig.logs / "raylet.out").write_bytes(LOG)
    rig.shipping().start()
    eventually(lambda: content_now(store) == (set(LINES), {"raylet.out": LOG}))
    rig.kill()
    assert content(store, locate(store, REF)) == (set(LINES), {"raylet.out": LOG})
