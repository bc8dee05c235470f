"""One leader at a time, whatever clocks say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from certs.cluster import ClusterError, Failure
from certs.leader import Leadership
from tests.certs.fake_cluster import FakeCluster

DURATION_S = 30


class Clocks:
    """Time that the test moves; each replica sees the wall clock with its own error."""

    def __init__(self) -> None:
        self.s = 1000.0

    def monotonic(self) -> float:
        return self.s


def replica(
    cluster: FakeCluster, clocks: Clocks, name: str, skew: timedelta = timedelta(0)
) -> Leadership:
    started = datetime(2026, 1, 1, tzinfo=UTC)
    return Leadership(
        cluster,
        identity=name,
        duration_s=DURATION_S,
        now=lambda: started + timedelta(seconds=clocks.s) + skew,
        monotonic=clocks.monotonic,
    )


def test_the_first_leads_and_the_second_follows() -> None:
    """And the Lease says so."""
    cluster, clocks = FakeCluster(), Clocks()
    first, second = replica(cluster, clocks, "first"), replica(cluster, clocks, "second")
    assert first.attend()
    assert not second.attend()
    assert (first.is_leading(), second.is_leading()) == (True, False)
    assert cluster.kept_lease is not None
    assert cluster.kept_lease.holder == second.holder == "first"


def test_a_leader_that_renews_keeps_leading() -> None:
    """For as long as it likes; the other only watches."""
    cluster, clocks = FakeCluster(), Clocks()
    first, second = replica(cluster, clocks, "first"), replica(cluster, clocks, "second")
    for _ in range(50):
        assert first.attend()
        assert not second.attend()
        clocks.s += 10
    assert cluster.kept_lease is not None
    assert cluster.kept_lease.transitions == 0


@pytest.mark.parametrize("skew", [timedelta(days=-1), timedelta(0), timedelta(days=1)])
def test_a_silent_leader_is_replaced_after_the_lease_by_the_follower_s_own_watch(
    skew: timedelta,
) -> None:
    """The times in the Lease are never compared with a clock."""
    cluster, clocks = FakeCluster(), Clocks()
    first, second = replica(cluster, clocks, "first"), replica(cluster, clocks, "second", skew)
    assert first.attend()
    assert not second.attend()
    clocks.s += DURATION_S
    assert not second.attend()
    clocks.s += 1
    assert second.attend()
    assert cluster.kept_lease is not None
    assert cluster.kept_lease.transitions == 1


def test_a_silent_leader_stops_before_another_may_begin() -> None:
    """Cut off from the API server, it cannot know; its own clock tells."""
    cluster, clocks = FakeCluster(), Clocks()
    first = replica(cluster, clocks, "first")
    assert first.attend()
    clocks.s += DURATION_S * 2 / 3
    assert not first.is_leading()


def test_a_slow_renewal_counts_from_its_beginning() -> None:
    """The API server may have taken it just then."""
    cluster, clocks = FakeCluster(), Clocks()
    first = replica(cluster, clocks, "first")

    def slow() -> None:
        clocks.s += 15

    cluster.before["write_lease"] = slow
    assert first.attend()
    clocks.s += 5
    assert not first.is_leading()


def test_two_that_take_it_at_once_make_one_leader() -> None:
    """The second write finds another version."""
    cluster, clocks = FakeCluster(), Clocks()
    first, second = replica(cluster, clocks, "first"), replica(cluster, clocks, "second")
    assert first.attend()
    first.release()

    def second_comes_first() -> None:
        assert second.attend()

    cluster.before["write_lease"] = second_comes_first
    assert not first.attend()
    assert (first.is_leading(), second.is_leading()) == (False, True)


def test_a_released_lease_is_taken_at_once() -> None:
    """An update of the Deployment waits for nothing."""
    cluster, clocks = FakeCluster(), Clocks()
    first, second = replica(cluster, clocks, "first"), replica(cluster, clocks, "second")
    assert first.attend()
    assert not second.attend()
    first.release()
    assert not first.is_leading()
    assert second.attend()
    first.release()
    assert cluster.kept_lease is not None
    assert cluster.kept_lease.holder == "second"


def test_an_error_is_not_a_loss_before_time() -> None:
    """One failed call: the leader goes on until its time is over."""
    cluster, clocks = FakeCluster(), Clocks()
    first = replica(cluster, clocks, "first")
    assert first.attend()
    cluster.faults["write_lease"] = Failure.UNREACHABLE
    clocks.s += 5
    with pytest.raises(ClusterError):
        first.attend()
    assert first.is_leading()
    clocks.s += DURATION_S
    assert not first.is_leading()


def test_a_leader_that_was_replaced_follows() -> None:
    """When it wakes after a long sleep."""
    cluster, clocks = FakeCluster(), Clocks()
    first, second = replica(cluster, clocks, "first"), replica(cluster, clocks, "second")
    assert first.attend()
    assert not second.attend()
    clocks.s += DURATION_S + 1
    assert second.attend()
    assert not first.attend()
    assert not first.is_leading()
