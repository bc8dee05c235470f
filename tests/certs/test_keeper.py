"""Turns of `certs run` on a cluster in memory, with real certificates and files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import EcForge
from certs.cluster import Failure
from certs.files import PairFolder
from certs.keeper import Keeper
from certs.kept import Kept, Reason
from certs.leader import Leadership
from certs.metrics import CertsMetrics
from certs.steps import MakeAuthority, MakeLeaf, Step, applied
from certs.stored import AUTHORITIES, from_data, to_data
from tests.certs.fake_cluster import FakeCluster
from tests.certs.forging import POLICY, START

HOUR = timedelta(hours=1)
LEASE_S = 30


@dataclass
class Rig:
    """Replicas upon one cluster, and the time."""

    path: Path
    cluster: FakeCluster = field(default_factory=FakeCluster)
    time: datetime = START
    offset_s: float = 0.0

    def now(self) -> datetime:
        return self.time

    def seconds(self) -> float:
        return self.time.timestamp()

    def replica(self, name: str, *, may_create: bool = False) -> Replica:
        metrics = CertsMetrics()
        leadership = Leadership(
            self.cluster,
            identity=name,
            duration_s=LEASE_S,
            now=self.now,
            monotonic=self.seconds,
        )
        keeper = Keeper(
            self.cluster,
            configurations=("hooks",),
            policy=POLICY,
            forge=EcForge(),
            folder=PairFolder(self.path / name),
            leadership=leadership,
            metrics=metrics,
            clock=self,
            may_create_secret=may_create,
        )
        return Replica(keeper, metrics, self.path / name)

    def kept(self) -> Kept:
        return from_data(self.cluster.secret_data or {}).kept

    def do(self, step: Step) -> None:
        """Somebody else's step, as `certs rotate` writes it."""
        kept = applied(self.kept(), step, forge=EcForge(), now=self.time, policy=POLICY)
        assert self.cluster.secret_data is not None
        self.cluster.secret_data.update(to_data(kept))
        self.cluster.touch("secret")


@dataclass
class Replica:
    keeper: Keeper
    metrics: CertsMetrics
    path: Path

    def attend(self) -> bool:
        return self.keeper.attend()

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"rayhistory_certs_{name}", labels) or 0.0

    def served(self) -> bytes:
        return (self.path / "tls.crt").read_bytes()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def served_leaf(rig: Rig) -> bytes:
    leaf = rig.kept().leaf
    assert leaf is not None
    return leaf.certificate


def test_one_turn_installs_everything(rig: Rig) -> None:
    """Secret, bundle and files."""
    replica = rig.replica("first")
    assert replica.keeper.problem == "not looked yet"
    assert replica.attend()
    assert replica.served() == served_leaf(rig)
    assert rig.cluster.configurations["hooks"] == (rig.kept().bundle,)
    assert replica.keeper.problem == ""
    assert replica.metric("leader") == 1
    assert replica.metric("rotations_total", kind="leaf", reason="missing") == 1
    assert replica.metric("bundle_repairs_total", configuration="hooks") == 0
    leaf = rig.kept().leaf
    assert leaf is not None
    assert replica.metric("leaf_not_after_timestamp_seconds") == leaf.not_after.timestamp()


def test_a_follower_serves_what_the_leader_made(rig: Rig) -> None:
    """And writes nothing itself."""
    leader, follower = rig.replica("first"), rig.replica("second")
    assert leader.attend()
    rig.cluster.calls.clear()
    assert follower.attend()
    assert follower.served() == leader.served()
    assert not {"write_secret", "publish", "configuration"}.intersection(rig.cluster.calls)
    assert follower.metric("leader") == 0


def test_a_turn_without_news_writes_nothing_but_the_lease(rig: Rig) -> None:
    """Idle replicas cost the API server four calls."""
    replica = rig.replica("first")
    replica.attend()
    rig.cluster.calls.clear()
    replica.attend()
    assert rig.cluster.calls == ["lease", "write_lease", "configuration", "secret"]


def test_a_configuration_applied_anew_has_its_bundle_back(rig: Rig) -> None:
    """In the next turn, which is counted as a repair."""
    replica = rig.replica("first")
    replica.attend()
    rig.cluster.apply("hooks", entries=2)
    assert replica.attend()
    assert rig.cluster.configurations["hooks"] == (rig.kept().bundle,) * 2
    assert replica.metric("bundle_repairs_total", configuration="hooks") == 1


def test_a_configuration_that_comes_later_gets_the_bundle(rig: Rig) -> None:
    """The chart may make it after the webhook."""
    del rig.cluster.configurations["hooks"]
    replica = rig.replica("first")
    assert replica.attend()
    rig.cluster.apply("hooks")
    assert replica.attend()
    assert rig.cluster.configurations["hooks"] == (rig.kept().bundle,)


def test_a_requested_rotation_of_the_leaf_is_served_and_counted_by_all(rig: Rig) -> None:
    """Whoever made it."""
    replicas = [rig.replica("first"), rig.replica("second")]
    for replica in replicas:
        replica.attend()
    before = served_leaf(rig)
    rig.do(MakeLeaf(Reason.REQUESTED, rig.kept().authorities[0].id))
    for replica in replicas:
        assert replica.attend()
        assert replica.served() == served_leaf(rig) != before
        assert replica.metric("rotations_total", kind="leaf", reason="requested") == 1


def test_a_whole_rotation_of_the_authority(rig: Rig) -> None:
    """Turn by turn, with the leader going in the midst of it."""
    first, second = rig.replica("first"), rig.replica("second")
    first.attend()
    second.attend()
    old = rig.kept().authorities[0].id
    rig.time += HOUR
    rig.do(MakeAuthority(Reason.REQUESTED))
    second.attend()
    rig.time += timedelta(seconds=LEASE_S + 1)
    assert second.attend()
    assert second.metric("leader") == 1
    assert rig.cluster.configurations["hooks"] == (rig.kept().bundle,)
    leaf = rig.kept().leaf
    assert leaf is not None
    assert leaf.authority == old
    for _ in range(3):
        rig.time += HOUR
        assert second.attend()
    (only,) = rig.kept().authorities
    assert only.reason is Reason.REQUESTED
    assert rig.cluster.configurations["hooks"] == (only.certificate,)
    assert second.metric("ca_trusted") == 1
    assert second.metric("rotations_total", kind="authority", reason="requested") == 1


def test_a_configuration_that_cannot_be_read_does_not_stop_renewals(rig: Rig) -> None:
    """RBAC was wrong: told, counted, and the leaf lives on."""
    replica = rig.replica("first")
    replica.attend()
    before = served_leaf(rig)
    rig.cluster.faults["configuration"] = Failure.FORBIDDEN
    rig.time += timedelta(days=12)
    assert not replica.attend()
    assert served_leaf(rig) != before
    assert replica.served() == served_leaf(rig)
    assert replica.metric("errors_total", reason="forbidden") >= 1


def test_a_configuration_that_cannot_be_written_does_not_stop_renewals(rig: Rig) -> None:
    """The step that fails is left out."""
    replica = rig.replica("first")
    replica.attend()
    before = served_leaf(rig)
    rig.cluster.apply("hooks")
    rig.cluster.faults["publish"] = Failure.FORBIDDEN
    rig.time += timedelta(days=12)
    assert not replica.attend()
    assert served_leaf(rig) != before
    del rig.cluster.faults["publish"]
    assert replica.attend()
    assert rig.cluster.configurations["hooks"] == (rig.kept().bundle,)


def test_a_deleted_secret_takes_nothing_from_the_configuration(rig: Rig) -> None:
    """The files that are served verify until the Secret is back."""
    replica = rig.replica("first")
    replica.attend()
    held, served = rig.cluster.configurations["hooks"], replica.served()
    rig.cluster.secret_data = None
    assert not replica.attend()
    assert rig.cluster.configurations["hooks"] == held
    assert replica.served() == served
    assert "no certificate in the Secret" in replica.keeper.problem
    rig.cluster.secret_data = {}
    assert replica.attend()
    assert replica.served() == served_leaf(rig) != served
    assert rig.cluster.configurations["hooks"] == (rig.kept().bundle,)


def test_a_missing_secret_is_made_when_that_is_allowed(rig: Rig) -> None:
    """Otherwise the chart owns it."""
    rig.cluster.secret_data = None
    assert not rig.replica("first").attend()
    assert rig.cluster.secret_data is None
    rig.time += timedelta(minutes=1)
    allowed = rig.replica("second", may_create=True)
    allowed.attend()
    rig.time += timedelta(minutes=1)
    assert allowed.attend()
    assert allowed.served() == served_leaf(rig)


def test_a_broken_secret_is_made_anew(rig: Rig) -> None:
    """Somebody edited it."""
    replica = rig.replica("first")
    replica.attend()
    assert rig.cluster.secret_data is not None
    rig.cluster.secret_data[AUTHORITIES] = b"broken"
    rig.cluster.touch("secret")
    assert replica.attend()
    assert rig.kept().signed_by == 0
    assert rig.cluster.configurations["hooks"] == (rig.kept().bundle,)


def test_a_secret_of_a_newer_version_is_not_touched(rig: Rig) -> None:
    """The files that are served stay."""
    replica = rig.replica("first")
    replica.attend()
    served = replica.served()
    assert rig.cluster.secret_data is not None
    rig.cluster.secret_data[AUTHORITIES] = b'{"version": 2, "authorities": []}'
    rig.cluster.touch("secret")
    before = dict(rig.cluster.secret_data)
    assert not replica.attend()
    assert rig.cluster.secret_data == before
    assert replica.served() == served


def test_a_leader_that_slept_cannot_put_an_old_bundle_back(rig: Rig) -> None:
    """It looked, slept, and others rotated: its write names a version that is gone."""
    sleeper, other = rig.replica("first"), rig.replica("second")
    sleeper.attend()
    other.attend()
    rig.time += HOUR
    rig.do(MakeAuthority(Reason.REQUESTED))

    def others_rotate() -> None:
        for _ in range(5):
            rig.time += HOUR
            other.attend()

    rig.cluster.before["publish"] = others_rotate
    sleeper.attend()
    (only,) = rig.kept().authorities
    assert only.reason is Reason.REQUESTED
    assert rig.cluster.configurations["hooks"] == (only.certificate,)
    assert sleeper.metric("errors_total", reason="conflict") >= 1


def test_a_secret_that_changed_since_the_look_is_looked_at_again(rig: Rig) -> None:
    """Two leaders for a moment: one write wins, and nothing is made twice."""
    first, second = rig.replica("first"), rig.replica("second")
    rig.cluster.kept_lease = None
    first_turn = [second.attend]

    def both() -> None:
        rig.cluster.kept_lease = None
        first_turn.pop()()

    rig.cluster.before["write_secret"] = both
    assert first.attend()
    assert len(rig.kept().authorities) == 1
    assert rig.cluster.configurations["hooks"] == (rig.kept().bundle,)


def test_without_the_api_server_the_files_stay(rig: Rig) -> None:
    """A turn fails, and the next is whole again."""
    replica = rig.replica("first")
    replica.attend()
    served = replica.served()
    for call in ("lease", "secret", "configuration"):
        rig.cluster.faults[call] = Failure.UNREACHABLE
    assert not replica.attend()
    assert replica.served() == served
    assert replica.keeper.problem == ""
    rig.cluster.faults.clear()
    assert replica.attend()


def test_an_expired_certificate_is_a_problem(rig: Rig) -> None:
    """Readiness says so, and the metric does."""
    follower = rig.replica("second")
    rig.replica("first").attend()
    follower.attend()
    rig.cluster.faults["write_lease"] = Failure.FORBIDDEN
    rig.time += timedelta(days=15)
    follower.attend()
    assert follower.keeper.problem == "the certificate has expired"


def test_files_that_cannot_be_written_are_a_problem(rig: Rig) -> None:
    """A volume that is not mounted, or is full."""
    (rig.path / "first").write_text("a file where the folder should be")
    replica = rig.replica("first")
    assert not replica.attend()
    assert replica.keeper.problem.startswith("files not written")


def test_a_trouble_is_told_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Not every five seconds for a night."""
    replica = rig.replica("first")
    replica.attend()
    rig.cluster.faults["configuration"] = Failure.FORBIDDEN
    for _ in range(5):
        replica.attend()
    told = [r for r in caplog.records if r.getMessage() == "a call to the API server failed"]
    assert len(told) == 1


def test_no_log_line_has_a_key(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever happens."""
    caplog.set_level("DEBUG")
    replica = rig.replica("first")
    replica.attend()
    rig.do(MakeAuthority(Reason.REQUESTED))
    for _ in range(4):
        rig.time += HOUR
        replica.attend()
    said = [str(vars(record)) for record in caplog.records]
    assert len(said) > 5
    assert not [line for line in said if "PRIVATE" in line or "BEGIN" in line]


def test_only_one_authority_is_removed_by_a_step(rig: Rig) -> None:
    """Three CAs in a row end as one."""
    replica = rig.replica("first")
    replica.attend()
    for _ in range(2):
        rig.do(MakeAuthority(Reason.REQUESTED))
    for _ in range(5):
        rig.time += HOUR
        assert replica.attend()
    assert len(rig.kept().authorities) == 1
    assert replace(rig.kept().authorities[0], key=None).reason is Reason.REQUESTED
