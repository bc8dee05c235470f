"""Whole collector processes: start, run, kill, drain, session changes."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.wire import decode_catalogue_entry, decode_session_start
from tests.collector.collector_process import CollectorProcess, RayDouble, Stored, wait_for
from tests.collector.events import (
    NODE,
    OLD_SESSION,
    OTHER_NODE,
    SESSION,
    body,
    real_events,
    task_body,
    task_event,
)

Start = Callable[..., CollectorProcess]

NEW_SESSION = "session_2026-11-30_21-00-00_000001_99"
OLDER_SESSION = "session_2026-11-30_17-00-00_000001_11"


def test_real_events_and_logs_reach_storage(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """From the first POST to the end marker, in KubeRay's layout and ours."""
    ray.start()
    collector = start_collector()
    events = [event | {"sessionName": SESSION} for event in real_events()]
    assert collector.post(body(*events)) == 200
    wait_for("start marker", (stored.history() / "session.json").exists)
    ray.log("worker.out", "hello\n")
    ray.kill()
    collector.stop()
    assert set(stored.event_ids()) == {event["eventId"] for event in events}
    assert set(stored.event_ids().values()) == {1}
    assert stored.log("raylet.out") == "raylet started\n"
    assert stored.log("worker.out") == "hello\n"
    manifest = stored.manifest()
    assert (manifest.state, manifest.role, manifest.session) == ("ended", "head", SESSION)
    assert manifest.events.stored == len({e["eventId"] for e in events})
    assert sum(file.events for file in manifest.events.event_files) == manifest.events.stored
    assert not manifest.hot_events
    end = stored.end()
    assert end is not None
    assert end.reason == "drained"
    started = decode_session_start((stored.history() / "session.json").read_bytes())
    assert (started.cluster, started.namespace, started.role) == ("c1", "ml", "head")
    marker = stored.root / "cluster-metadata/raycluster/ml_c1" / SESSION
    assert marker.read_bytes() == b""
    (entry_path,) = (stored.root / "history/v1/catalogue").rglob("*.json")
    entry = decode_catalogue_entry(entry_path.read_bytes())
    assert (entry.state, entry.nodes, entry.session) == ("ended", 1, SESSION)
    assert entry.jobs >= 1
    assert entry.size_bytes > 1000
    assert entry.ended_ms == end.ended_ms


def test_a_killed_collector_loses_and_repeats_nothing(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """SIGKILL after the answer and before the shipping; Ray sends the last batch again."""
    ray.start()
    first = start_collector()
    for start in range(0, 3000, 500):
        assert first.post(task_body(start, 500)) == 200
    first.kill()
    (journal,) = (ray.root / ".history-collector" / SESSION / NODE).glob("job_events/*/*.jsonl")
    with journal.open("ab") as file:
        file.write(b'{"eventId": "torn by the kill')
    second = start_collector()
    assert second.post(task_body(2500, 500)) == 200
    assert second.post(task_body(3000, 500)) == 200
    wait_for("recovered events cold", lambda: len(stored.event_ids()) >= 3000)
    second.kill()
    third = start_collector()
    assert third.post(task_body(2900, 600)) == 200
    ray.kill()
    third.stop()
    assert len(stored.event_ids()) == 3500
    assert set(stored.event_ids().values()) == {1}
    assert not list((ray.root / ".history-collector").rglob("*.jsonl"))
    manifest = stored.manifest()
    assert manifest.state == "ended"
    assert manifest.events.stored == 3500
    assert 3500 <= manifest.events.received <= 3500 + 600 + 600


def test_a_fast_sender_is_never_refused(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """40,000 events as fast as they go, one POST in flight as Ray does; memory stays bounded."""
    ray.start()
    collector = start_collector("--event-max-file-size=8Mi")
    collector.wait_message("listening", what="events")
    slowest_s = 0.0
    for start in range(0, 40_000, 1000):
        data = task_body(start, 1000)
        begin_s = time.monotonic()
        assert collector.post(data) == 200
        slowest_s = max(slowest_s, time.monotonic() - begin_s)
    assert slowest_s < 3.0
    assert collector.rss_bytes() < 200 * 1024 * 1024
    ray.kill()
    collector.stop()
    assert len(stored.event_ids()) == 40_000
    assert set(stored.event_ids().values()) == {1}


def test_the_drain_waits_for_ray_and_takes_what_it_still_sends(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """Both containers get SIGTERM together: events and log lines come after it."""
    ray.start()
    collector = start_collector("--grace-period=20s")
    collector.wait_message("session found")
    time.sleep(1.5)
    collector.terminate()
    collector.wait_message("signal")
    time.sleep(0.5)
    assert collector.post(task_body(0, 100)) == 200
    ray.kill()
    time.sleep(1.0)
    ray.log("gcs_server.out", "last words\n")
    assert collector.process.wait(20) == 0
    assert len(stored.event_ids()) == 100
    assert stored.log("gcs_server.out") == "last words\n"
    assert stored.manifest().state == "ended"


def test_the_drain_ends_within_its_grace_though_ray_lives(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """Only this container is stopped."""
    ray.start()
    collector = start_collector("--grace-period=5s")
    assert collector.post(task_body(0, 10)) == 200
    collector.wait_message("session found")
    assert collector.stop() < 5
    assert len(stored.event_ids()) == 10


def test_a_second_signal_hurries(ray: RayDouble, stored: Stored, start_collector: Start) -> None:
    """Somebody waits at a terminal."""
    ray.start()
    collector = start_collector("--grace-period=60s")
    assert collector.post(task_body(0, 10)) == 200
    collector.wait_message("session found")
    collector.terminate()
    collector.wait_message("signal")
    time.sleep(0.2)
    assert collector.stop() < 8
    assert len(stored.event_ids()) == 10


def test_a_new_session_is_followed_and_the_old_one_finished(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """Ray's container restarted in the same pod; late events still go to the old session."""
    ray.start()
    collector = start_collector()
    assert collector.post(task_body(0, 10)) == 200
    collector.wait_message("session found", session=SESSION)
    ray.kill()
    ray.start(NEW_SESSION, OTHER_NODE)
    collector.wait_message("session finished", session=SESSION, complete=True)
    assert collector.post(task_body(100, 10, session=NEW_SESSION)) == 200
    assert collector.post(task_body(10, 5)) == 200
    end = stored.end()
    assert end is not None
    assert end.reason == "session_changed"
    assert stored.manifest().state == "ended"
    assert stored.end(NEW_SESSION) is None
    ray.kill(NEW_SESSION)
    collector.stop()
    assert len(stored.event_ids()) == 15
    assert len(stored.event_ids(NEW_SESSION, OTHER_NODE)) == 10
    new_end = stored.end(NEW_SESSION)
    assert new_end is not None
    assert new_end.reason == "drained"
    assert stored.end() == end
    assert stored.log("raylet.out", NEW_SESSION, OTHER_NODE) == "raylet started\n"


def test_ray_without_a_raylet_is_finished_and_followed_again_when_it_is_back(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """The raylet crashed and nobody told us; the collector itself stays."""
    ray.start()
    collector = start_collector("--ray-gone-after=1s")
    assert collector.post(task_body(0, 10)) == 200
    collector.wait_message("session found")
    ray.kill()
    collector.wait_message("session finished", reason="ray_gone")
    end = stored.end()
    assert end is not None
    assert end.reason == "ray_gone"
    ray.raylet()
    wait_for("running again", lambda: stored.end() is None)
    assert collector.post(task_body(10, 10)) == 200
    ray.log("raylet.out", "again\n")
    ray.kill()
    collector.stop()
    assert len(stored.event_ids()) == 20
    assert stored.log("raylet.out") == "raylet started\nagain\n"
    assert stored.end() is not None


def test_a_raylet_that_starts_slowly_is_waited_for(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """Its files are there half a minute before its socket on a busy node."""
    ray.start()
    ray.kill()
    collector = start_collector("--ray-gone-after=100ms")
    collector.wait_message("session found")
    time.sleep(4)
    assert not any(line["message"] == "session finished" for line in collector.messages())
    assert stored.manifest().state == "running"
    ray.raylet()
    wait_for("raylet seen", lambda: collector.metric("raylet_up") == 1)
    ray.kill()
    collector.wait_message("session finished", reason="ray_gone")


def test_events_and_lines_after_the_end_are_stored_too(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """A driver outside Ray wrote its log 9 s after Ray's end; the end told first stands."""
    ray.start()
    collector = start_collector("--ray-gone-after=1s")
    assert collector.post(task_body(0, 10)) == 200
    collector.wait_message("session found")
    ray.kill()
    collector.wait_message("session finished", reason="ray_gone")
    end = stored.end()
    assert collector.post(task_body(10, 5)) == 200
    ray.log("job-driver-1.log", "late line\n")
    collector.stop()
    assert len(stored.event_ids()) == 15
    assert stored.log("job-driver-1.log") == "late line\n"
    assert stored.manifest().state == "ended"
    assert stored.end() == end


def test_sessions_left_on_disk_are_finished(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """Before this collector came: one with logs only, one whose events were never shipped."""
    ray.start(OLDER_SESSION, OTHER_NODE)
    ray.kill(OLDER_SESSION)
    os.utime(ray.root / OLDER_SESSION / "logs" / "raylet.out", (4e9, 4e9))
    ray.start(OLD_SESSION, OTHER_NODE)
    ray.log("old.out", "old words\n", session=OLD_SESSION)
    os.utime(ray.root / OLD_SESSION / "logs" / "old.out", (1_700_000_000, 1_700_000_000))
    os.utime(ray.root / OLD_SESSION / "logs" / "raylet.out", (1_700_000_000, 1_700_000_000))
    first = start_collector()
    assert first.post(task_body(0, 7, session=OLD_SESSION)) == 200
    first.kill()
    ray.kill(OLD_SESSION)
    ray.start()
    second = start_collector()
    second.wait_message("session finished", session=OLD_SESSION, complete=True)
    assert len(stored.event_ids(OLD_SESSION, OTHER_NODE)) == 7
    assert stored.log("old.out", OLD_SESSION, OTHER_NODE) == "old words\n"
    end = stored.end(OLD_SESSION)
    assert end is not None
    assert (end.reason, end.ended_ms) == ("session_changed", 1_700_000_000_000)
    second.wait_message("session finished", session=OLDER_SESSION, complete=True)
    older = stored.end(OLDER_SESSION)
    assert older is not None
    assert older.ended_ms <= time.time() * 1000, "its clock was wrong"
    ray.kill()
    second.stop()
    third = start_collector()
    third.wait_message("listening", what="metrics")
    third.stop()
    assert not any(line["message"] == "session finished" for line in third.messages())


def test_events_without_any_session_directory_are_stored(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """Nothing but POSTs: the events themselves say which session and node they are of."""
    collector = start_collector()
    assert collector.post(task_body(0, 10)) == 200
    assert collector.metric("session_known") == 0
    collector.stop()
    assert len(stored.event_ids()) == 10
    assert stored.manifest().state == "ended"
    assert (stored.root / "cluster-metadata/raycluster/ml_c1" / SESSION).exists()


def test_a_workers_collector_ends_its_node_and_not_the_session(
    ray: RayDouble, stored: Stored, start_collector: Start
) -> None:
    """The head decides when a session is over."""
    ray.start(node_id=OTHER_NODE, head=False)
    collector = start_collector("--role=Worker")
    assert collector.post(body(task_event(1))) == 200
    collector.wait_message("session found")
    ray.kill()
    collector.stop()
    assert stored.manifest(node_id=OTHER_NODE).state == "ended"
    assert stored.end() is None
    (entry_path,) = (stored.root / "history/v1/catalogue").rglob("*.json")
    assert decode_catalogue_entry(entry_path.read_bytes()).state == "running"


@pytest.mark.parametrize("poison", [b"no json", b"[1]", b'[{"eventId":"a","sessionName":"/"}]'])
def test_poison_does_not_stop_the_stream(
    ray: RayDouble, stored: Stored, start_collector: Start, poison: bytes
) -> None:
    """It is answered 200, counted in the manifest, and what comes behind it is stored."""
    ray.start()
    collector = start_collector()
    assert collector.post(poison) == 200
    assert collector.post(task_body(0, 5)) == 200
    collector.wait_message("session found")
    ray.kill()
    collector.stop()
    assert len(stored.event_ids()) == 5
    assert stored.manifest().events.quarantined == 1


def test_many_senders_at_once(ray: RayDouble, stored: Stored, start_collector: Start) -> None:
    """Several agents of one host, each with its own connection, all resending at random."""
    ray.start()
    collector = start_collector()
    url = collector.url
    statuses: list[int] = []

    def send(sender: int) -> None:
        for start in range(0, 2000, 100):
            data = task_body(sender * 10_000 + start, 100)
            statuses.extend(collector.post(data) for _ in range(1 + (start + sender) % 3))

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert url
    assert set(statuses) == {200}
    ray.kill()
    collector.stop()
    assert len(stored.event_ids()) == 12_000
    assert set(stored.event_ids().values()) == {1}


def test_two_collectors_on_one_data_directory(ray: RayDouble, start_collector: Start) -> None:
    """The second one says so in one line and ends with 1."""
    first = start_collector()
    first.wait_message("listening", what="metrics")
    second = start_collector()
    assert second.process.wait(20) == 1
    assert first.process.poll() is None


def test_a_taken_port_is_told_in_one_line(
    ray: RayDouble, start_collector: Start, tmp_path: Path
) -> None:
    """With the option that changes it."""
    first = start_collector()
    port = first.wait_message("listening", what="events")["port"]
    second = start_collector(f"--events-port={port}", f"--data-dir={tmp_path / 'other'}")
    assert second.process.wait(20) == 1
    output = (tmp_path / "collector.log").read_text()
    line = next(line for line in output.splitlines() if line.startswith("collector: error:"))
    assert f"cannot listen on 127.0.0.1:{port}" in line
    assert "Traceback" not in output


def test_ignored_options_are_told(ray: RayDouble, start_collector: Start) -> None:
    """One line each."""
    collector = start_collector("--push-interval=1m", "--log-batching=1000")
    collector.wait_message("listening", what="metrics")
    told = [line for line in collector.messages() if line["message"].startswith("option does")]
    assert [line["option"] for line in told] == ["push-interval", "log-batching"]
    assert all(json.dumps(line) for line in told)
