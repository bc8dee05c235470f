"""Storage that fails, disks that forget, and kills at every step: nothing is lost or repeated."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.backend import CommonPrefix, ConfigError, ThrottledError, UnavailableError
from storage.faults import Fault, FaultyBackend, Verb
from storage.layout import hot_prefix, log_key
from storage.local import LocalBackend
from tests.collector.shipping.shipping_kit import (
    NODE,
    REF,
    Rig,
    event_line,
    eventually,
)


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    (tmp_path / "store").mkdir()
    return LocalBackend(tmp_path / "store")


@pytest.fixture
def rig(tmp_path: Path, backend: LocalBackend) -> Rig:
    return Rig.make(tmp_path, backend)


def hot_objects(rig: Rig) -> list[str]:
    """Keys of the live segments there are."""
    return [
        info.key
        for info in rig.backend.list(hot_prefix(rig.ref, NODE))
        if not isinstance(info, CommonPrefix)
    ]


def test_long_outage_loses_and_repeats_nothing(tmp_path: Path, backend: LocalBackend) -> None:
    """Storage is away for long; events, logs and even deleted logs arrive when it is back."""
    faulty = FaultyBackend(
        backend,
        [Fault(verb=verb, times=None, error=UnavailableError) for verb in (Verb.PUT, Verb.LIST)],
    )
    rig = Rig.make(tmp_path, faulty)
    lines = [event_line(number) for number in range(50)]
    rig.shipping().start()
    path = rig.journal.append(1, lines[:20])
    (rig.logs / "x.out").write_bytes(b"old\n")
    time.sleep(0.2)
    with (rig.logs / "x.out").open("ab") as file:
        file.write(b"rest of old\n")
    (rig.logs / "x.out").unlink()
    (rig.logs / "x.out").write_bytes(b"new\n")
    rig.journal.append(1, lines[20:])
    time.sleep(0.2)
    rig.journal.seal(path)
    time.sleep(0.2)
    assert len(faulty.calls) < 200, "no storm while it is down"
    faulty.plan = []
    expected = {"x.out": b"new\n", "x.out.gone-1": b"old\nrest of old\n"}
    eventually(lambda: rig.logs_in_storage() == expected)
    eventually(lambda: sorted(rig.events_in_storage()) == lines)
    assert rig.finish().complete
    assert sorted(rig.events_in_storage()) == lines
    assert rig.logs_in_storage() == expected


@pytest.mark.parametrize("verb", [Verb.PUT, Verb.HEAD, Verb.LIST, Verb.DELETE])
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("lost_answer", [False, True])
def test_failure_at_any_call_loses_and_repeats_nothing(
    tmp_path: Path, backend: LocalBackend, verb: Verb, nth: int, *, lost_answer: bool
) -> None:
    """The nth call of each kind fails, before or after it took effect; the end is the same."""
    fault = Fault(verb=verb, nth=nth, times=2, error=ThrottledError, lost_answer=lost_answer)
    faulty = FaultyBackend(backend, [fault])
    rig = Rig.make(tmp_path, faulty)
    lines = [event_line(number) for number in range(40)]
    rig.shipping().start()
    path = rig.journal.append(1, lines[:20])
    (rig.logs / "a.out").write_bytes(b"a\n")
    eventually(lambda: "a.out" in rig.logs_in_storage())
    rig.journal.append(1, lines[20:])
    (rig.logs / "b.out").write_bytes(b"b\n")
    rig.journal.seal(path)
    assert rig.finish().complete
    faulty.plan = []
    assert rig.events_in_storage() == lines
    assert rig.logs_in_storage() == {"a.out": b"a\n", "b.out": b"b\n"}
    assert hot_objects(rig) == []


@pytest.mark.parametrize("verb", [Verb.PUT, Verb.HEAD, Verb.DELETE])
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("lost_answer", [False, True])
def test_kill_at_any_call_loses_and_repeats_nothing(
    tmp_path: Path, backend: LocalBackend, verb: Verb, nth: int, *, lost_answer: bool
) -> None:
    """From the nth call on nothing answers, then the process dies; the next one makes it whole."""
    fault = Fault(verb=verb, nth=nth, times=None, error=UnavailableError, lost_answer=lost_answer)
    faulty = FaultyBackend(backend, [fault])
    rig = Rig.make(tmp_path, faulty)
    lines = [event_line(number) for number in range(60)]
    rig.shipping().start()
    path = rig.journal.append(1, lines[:20])
    (rig.logs / "a.out").write_bytes(b"a1\n")
    time.sleep(0.08)
    rig.journal.append(1, lines[20:40])
    rig.journal.seal(path)
    with (rig.logs / "a.out").open("ab") as file:
        file.write(b"a2\n")
    time.sleep(0.08)
    rig.journal.append(2, lines[40:50])
    rig.kill()
    faulty.plan = []
    with (rig.logs / "a.out").open("ab") as file:
        file.write(b"a3\n")
    (rig.logs / "a.out").rename(rig.logs / "a.out.1")
    (rig.logs / "a.out").write_bytes(b"second\n")
    rig.shipping().start()
    expected = {"a.out": b"second\n", "a.out.1": b"a1\na2\na3\n"}
    eventually(lambda: rig.logs_in_storage() == expected)
    eventually(lambda: sorted(rig.events_in_storage()) == lines[:50])
    path = rig.journal.append(3, lines[50:])
    rig.journal.seal(path)
    assert rig.finish().complete
    assert sorted(rig.events_in_storage()) == lines
    assert rig.logs_in_storage() == expected
    assert hot_objects(rig) == []


def test_number_of_a_live_segment_is_never_used_twice(rig: Rig, tmp_path: Path) -> None:
    """Even when the local disk forgot everything: numbers go on after what storage has."""
    (rig.logs / "x").write_bytes(b"1\n")
    rig.shipping().start()
    eventually(lambda: rig.logs_in_storage() == {"x": b"1\n"})
    rig.kill()
    first = hot_objects(rig)
    (tmp_path / "state").rename(tmp_path / "lost")
    with (rig.logs / "x").open("ab") as file:
        file.write(b"2\n")
    rig.shipping().start()
    eventually(lambda: rig.logs_in_storage() == {"x": b"1\n2\n"})
    assert set(first) < set(hot_objects(rig))
    assert rig.finish().complete


def test_lost_local_state_continues_by_content(rig: Rig, tmp_path: Path) -> None:
    """Without it, logs are recognised by their bytes; one of the same name and other bytes is new."""
    (rig.logs / "same").write_bytes(b"s" * 1000 + b"\n")
    (rig.logs / "other").write_bytes(b"before\n")
    rig.shipping().start()
    before = {"same": b"s" * 1000 + b"\n", "other": b"before\n"}
    eventually(lambda: rig.logs_in_storage() == before)
    rig.kill()
    (tmp_path / "state").rename(tmp_path / "lost")
    with (rig.logs / "same").open("ab") as file:
        file.write(b"more\n")
    (rig.logs / "other").unlink()
    (rig.logs / "other").write_bytes(b"after that\n")
    rig.shipping().start()
    expected = {
        "same": b"s" * 1000 + b"\nmore\n",
        "other": b"after that\n",
        "other.gone-1": b"before\n",
    }
    eventually(lambda: rig.logs_in_storage() == expected)
    frames = {entry.path: entry.frames for entry in rig.manifest().logs}
    assert [frame.log_length for frame in frames["same"]] == [1001, 5]
    assert rig.finish().complete
    assert rig.logs_in_storage() == expected


def test_damaged_local_state_is_put_aside(rig: Rig, tmp_path: Path) -> None:
    """A state file that a full disk cut short stops nothing."""
    (rig.logs / "x").write_bytes(b"1\n")
    rig.shipping().start()
    eventually(lambda: rig.logs_in_storage() == {"x": b"1\n"})
    rig.kill()
    (state,) = (tmp_path / "state").rglob("state.json")
    state.write_bytes(state.read_bytes()[:40])
    rig.shipping()
    assert rig.finish().complete
    assert rig.logs_in_storage() == {"x": b"1\n"}
    assert state.with_suffix(".damaged").exists()


def test_what_the_grace_does_not_suffice_for_is_told(tmp_path: Path, backend: LocalBackend) -> None:
    """Slow storage: logs that were not stored are gaps, events that were not are counted."""
    faulty = FaultyBackend(
        backend,
        [
            Fault(verb=Verb.PUT, times=None, key_part="/hot/", error=UnavailableError),
            Fault(verb=Verb.PUT, times=None, key_part="job_events", error=UnavailableError),
            Fault(verb=Verb.PUT, times=None, key_part="big.out", error=UnavailableError),
        ],
    )
    rig = Rig.make(tmp_path, faulty)
    (rig.logs / "big.out").write_bytes(b"b" * 100)
    (rig.logs / "small.out").write_bytes(b"s")
    rig.journal.seal(rig.journal.append(1, [event_line(1)] * 7, ("job_events", "01000000")))
    rig.journal.seal(rig.journal.append(2, [event_line(2)]))
    begin = time.monotonic()
    report = rig.finish(within_s=1.0)
    assert time.monotonic() - begin < 4
    assert not report.complete
    assert (report.missing_log_bytes, report.unshipped_events) == (101, 7)
    manifest = rig.manifest()
    assert manifest.state == "ended"
    assert manifest.events.dropped == 7
    assert {entry.path: entry.gaps for entry in manifest.logs} == {
        "big.out": [(0, 100)],
        "small.out": [(0, 1)],
    }
    faulty.plan = []
    rig.kill()
    rig.shipping()
    assert rig.finish().complete, "the next process makes it whole"
    manifest = rig.manifest()
    assert manifest.events.dropped == 0
    assert all(entry.gaps == [] for entry in manifest.logs)


def test_deadline_aborts_a_put_in_the_middle(tmp_path: Path, backend: LocalBackend) -> None:
    """A log of which the put takes too long is not waited for, and leaves no torn object."""
    rig = Rig.make(tmp_path, backend)
    with (rig.logs / "large.out").open("wb") as file:
        file.truncate(80 * 1024 * 1024)
    shipping = rig.shipping()
    guard = shipping._shipping.jobs.guard

    def slow(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in guard(chunks):
            time.sleep(0.05)
            yield chunk

    shipping._shipping.jobs.guard = slow  # type: ignore[method-assign]
    report = rig.finish(within_s=0.5)
    assert not report.complete
    assert rig.manifest().logs[0].gaps == [(0, 80 * 1024 * 1024)]
    key = log_key(REF, NODE, "large.out")
    eventually(lambda: not rig.shippers[-1]._running)
    assert [i for i in backend.list(key) if not isinstance(i, CommonPrefix)] == []


def test_storage_that_refuses_for_good_is_not_stormed(
    tmp_path: Path, backend: LocalBackend
) -> None:
    """A setting that is wrong: a try now and then, until someone puts it right."""
    faulty = FaultyBackend(backend, [Fault(verb=Verb.PUT, times=None, error=ConfigError)])
    rig = Rig.make(tmp_path, faulty)
    (rig.logs / "x").write_bytes(b"x" * 100)
    path = rig.journal.append(1, [event_line(1)])
    rig.journal.seal(path)
    rig.shipping().start()
    time.sleep(0.5)
    assert len(faulty.calls) < 10
    faulty.plan = []
    rig.kill()
    rig.shipping()
    assert rig.finish().complete
    assert rig.logs_in_storage() == {"x": b"x" * 100}
    assert rig.events_in_storage() == [event_line(1)]


def test_a_step_that_fails_is_counted_and_shipping_goes_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next look may find all in order."""
    shipping = rig.shipping()
    steps = iter([True, True])
    real = shipping._shipping.step

    def step(**options: bool) -> None:
        if next(steps, False):
            raise OSError("told")
        real(**options)

    monkeypatch.setattr(shipping._shipping, "step", step)
    (rig.logs / "x.out").write_bytes(b"line\n")
    shipping.start()
    eventually(lambda: rig.logs_in_storage() == {"x.out": b"line\n"})
    name = "rayhistory_collector_loop_errors_total"
    assert shipping._parts.errors.registry.get_sample_value(name, {"task": "shipping"}) == 2
    assert rig.finish().complete
