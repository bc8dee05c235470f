"""The fault-injecting wrapper does what the plan says, when it says, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.backend import (
    DeniedError,
    NotFoundError,
    ThrottledError,
    UnavailableError,
)
from storage.faults import Fault, FaultyBackend, Verb
from storage.local import LocalBackend

CONTENT = bytes(range(250)) * 4000


@pytest.fixture
def backend(tmp_path: Path) -> FaultyBackend:
    """A wrapper without faults yet, over a store with the object `k`."""
    inner = LocalBackend(tmp_path)
    inner.put("k", CONTENT)
    return FaultyBackend(inner)


def test_the_nth_call_fails_and_the_next_works(backend: FaultyBackend) -> None:
    """Counting is per fault, and by key."""
    backend.plan = [Fault(verb=Verb.HEAD, nth=2, error=ThrottledError, key_part="k")]
    backend.head("k")
    with pytest.raises(NotFoundError):
        backend.head("other")
    with pytest.raises(ThrottledError, match="k: planned fault of head"):
        backend.head("k")
    assert backend.head("k").size_bytes == len(CONTENT)
    assert backend.calls == [(Verb.HEAD, key) for key in ("k", "other", "k", "k")]


def test_a_store_that_stays_down(backend: FaultyBackend) -> None:
    """times=None hits every further call of the verb, until the plan is replaced."""
    backend.plan = [Fault(verb=verb, times=None, error=UnavailableError) for verb in Verb]
    for _ in range(3):
        with pytest.raises(UnavailableError):
            backend.put("n", b"x")
        with pytest.raises(UnavailableError):
            list(backend.get("k"))
        with pytest.raises(UnavailableError):
            list(backend.get_range("k", 0))
        with pytest.raises(UnavailableError):
            list(backend.list(""))
        with pytest.raises(UnavailableError):
            backend.delete("k")
    backend.plan = []
    assert b"".join(backend.get("k")) == CONTENT
    assert len(list(backend.list(""))) == 1


@pytest.mark.parametrize("after", [0, 1, 300_000, len(CONTENT), len(CONTENT) + 5])
@pytest.mark.parametrize("as_file", [False, True])
def test_a_put_that_breaks_off_leaves_nothing(
    backend: FaultyBackend, tmp_path: Path, after: int, as_file: bool
) -> None:
    """Whatever got through before, nothing is visible."""
    source = tmp_path / "source"
    source.write_bytes(CONTENT)
    backend.plan = [Fault(verb=Verb.PUT, error=UnavailableError, after=after)]
    with pytest.raises(UnavailableError, match="new/k"):
        backend.put("new/k", source if as_file else CONTENT)
    with pytest.raises(NotFoundError):
        backend.head("new/k")


def test_a_lost_answer_did_its_work(backend: FaultyBackend) -> None:
    """The caller sees an error, the object is stored: retries must cope."""
    backend.plan = [Fault(verb=Verb.PUT, error=UnavailableError, lost_answer=True)]
    with pytest.raises(UnavailableError):
        backend.put("new", b"x")
    assert b"".join(backend.get("new")) == b"x"


@pytest.mark.parametrize("after", [0, 10, 262_144, len(CONTENT)])
def test_a_read_that_breaks_off(backend: FaultyBackend, after: int) -> None:
    """Exactly so many bytes come, then the error."""
    backend.plan = [Fault(verb=Verb.GET, error=UnavailableError, after=after)]
    got: list[bytes] = []
    with pytest.raises(UnavailableError):
        got.extend(backend.get("k"))
    assert b"".join(got) == CONTENT[:after]


@pytest.mark.parametrize("cut_at", [0, 10, 262_145])
def test_a_read_cut_short_without_error(backend: FaultyBackend, cut_at: int) -> None:
    """As a truncated object looks."""
    backend.plan = [Fault(verb=Verb.GET_RANGE, cut_at=cut_at)]
    assert b"".join(backend.get_range("k", 100)) == CONTENT[100 : 100 + cut_at]


def test_a_corrupted_byte(backend: FaultyBackend) -> None:
    """One byte differs, once."""
    backend.plan = [Fault(verb=Verb.GET, corrupt_at=300_000)]
    got = b"".join(backend.get("k"))
    assert [i for i in range(len(CONTENT)) if got[i] != CONTENT[i]] == [300_000]
    assert b"".join(backend.get("k")) == CONTENT


def test_a_listing_that_breaks_off(backend: FaultyBackend) -> None:
    """So many items come, then the error."""
    backend.put("l", b"")
    backend.plan = [Fault(verb=Verb.LIST, error=DeniedError, after=1)]
    listing = backend.list("")
    next(listing)
    with pytest.raises(DeniedError):
        next(listing)


def test_a_delay_waits_and_then_works(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow store is not a broken one."""
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    backend.plan = [Fault(verb=Verb.HEAD, delay_s=1.5)]
    assert backend.head("k").size_bytes == len(CONTENT)
    assert waited == [1.5]
