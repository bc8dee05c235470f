"""A cluster over years: replicas with clocks of their own, crashes, and who trusts whom when.

What the model allows itself is what the policy assumes: an API server uses a new bundle within
`BUNDLE_LAG`, a replica that runs serves a new leaf within `FILES_LAG`, and clocks are wrong by up
to `SKEW` each.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random

from certs.kept import Authority, Kept, Leaf, Reason
from certs.rotation import plan
from certs.state import Configuration, Policy, State
from certs.steps import Forge, MakeAuthority, MakeLeaf, Publish, Step, applied

HOUR = timedelta(hours=1)
SKEW = timedelta(minutes=5)
BUNDLE_LAG = timedelta(minutes=4)
FILES_LAG = timedelta(minutes=59)


@dataclass
class Replica:
    """A webhook with its certs."""

    skew: timedelta
    serves: Leaf | None = None


@dataclass
class World:
    """All that changes."""

    policy: Policy
    forge: Forge
    random: Random
    now: datetime
    kept: Kept = field(default_factory=Kept)
    held: dict[str, bytes] = field(default_factory=lambda: {"one": b"", "two": b""})
    """The bundle of each configuration."""
    trusted: dict[str, bytes] = field(default_factory=dict)
    """As the API server uses it."""
    replicas: list[Replica] = field(default_factory=list)
    crash_rate: float = 0.2
    done: list[Step] = field(default_factory=list)
    ever: dict[str, Authority] = field(default_factory=dict)
    """Every CA that was kept: a replica may serve a leaf of one that is gone."""
    checks: int = 0

    def hour(self) -> None:
        """A leader acts, perhaps not to the end; then lags run out one by one."""
        began = self.now
        leader = self.random.choice(self.replicas)
        is_crashing = self.random.random() < self.crash_rate
        self.lead(leader, most=self.random.randrange(4) if is_crashing else 20)
        self.later(began + BUNDLE_LAG)
        self.trusted = dict(self.held)
        self.check()
        for replica in self.replicas:
            self.later(began + self.random.random() * (FILES_LAG - BUNDLE_LAG) + BUNDLE_LAG)
            replica.serves = self.kept.leaf
            self.check()
        self.now = began + HOUR
        self.check()

    def hours(self, count: int) -> None:
        """Many of them."""
        for _ in range(count):
            self.hour()

    def lead(self, replica: Replica, *, most: int) -> None:
        """Do what is due, by this replica's clock; after `most` steps it crashes."""
        for _ in range(most):
            now = self.now + replica.skew
            due = plan(self.state(), now, self.policy)
            if not due:
                return
            self.do(due[0], now)
            self.check()
        assert most < 20, f"never ends: {due}"

    def do(self, step: Step, now: datetime) -> None:
        """One step, whole."""
        self.done.append(step)
        if isinstance(step, Publish):
            self.held[step.configuration] = self.kept.bundle
        self.kept = applied(self.kept, step, forge=self.forge, now=now, policy=self.policy)
        self.ever.update({authority.id: authority for authority in self.kept.authorities})

    def state(self) -> State:
        """As a leader sees it."""
        seen = (Configuration(name, (bundle,)) for name, bundle in self.held.items())
        return State(self.kept, tuple(seen))

    def later(self, at: datetime) -> None:
        """Time passes, never backwards."""
        self.now = max(self.now, at)

    def wiped(self) -> None:
        """A configuration is applied anew, and the leader's watch tells it at once."""
        self.held[self.random.choice(sorted(self.held))] = b""
        self.lead(self.random.choice(self.replicas), most=20)

    def asked(self, *, authority: bool) -> None:
        """`certs rotate`."""
        if authority and self.kept.signed_by == len(self.kept.authorities) - 1:
            self.do(MakeAuthority(Reason.REQUESTED), self.now)
        elif not authority and self.kept.leaf is not None:
            self.do(MakeLeaf(Reason.REQUESTED, self.kept.leaf.authority), self.now)

    def installed(self) -> World:
        """After the first hour, which alone may see handshakes fail."""
        self.lead(self.replicas[0], most=20)
        self.trusted = dict(self.held)
        for replica in self.replicas:
            replica.serves = self.kept.leaf
        self.done.clear()
        self.check()
        return self

    def check(self) -> None:
        """Every replica's leaf verifies, by the API server's clock, against every bundle."""
        if not self.trusted:
            return
        for replica in self.replicas:
            assert replica.serves is not None
            for bundle in self.trusted.values():
                self.checks += 1
                problem = self.problem(replica.serves, bundle)
                assert not problem, f"{self.now}: {problem}; {self.done[-8:]}"

    def problem(self, leaf: Leaf, bundle: bytes) -> str:
        """Why a handshake fails; empty when it does not."""
        signer = self.ever[leaf.authority]
        if signer.certificate not in bundle:
            return f"{leaf.id} is signed by {leaf.authority}, trusted is {bundle!r}"
        for certificate in (leaf, signer):
            for clock in (self.now - SKEW, self.now + SKEW):
                if not certificate.not_before <= clock < certificate.not_after:
                    return f"{certificate.id} is not valid at {clock}"
        return ""


def world(seed: int, *, policy: Policy, forge: Forge, start: datetime) -> World:
    """Two replicas whose clocks are as far apart as they may be."""
    random = Random(seed)
    first, second = random.choice([(SKEW, -SKEW), (-SKEW, SKEW), (SKEW, SKEW)])
    made = World(policy=policy, forge=forge, random=random, now=start)
    made.replicas = [Replica(first), Replica(second)]
    return made.installed()


def with_life(policy: Policy, *, authority: timedelta, leaf: timedelta) -> Policy:
    """The same policy with shorter lives, so that much happens soon."""
    return replace(policy, authority_life=authority, leaf_life=leaf)
