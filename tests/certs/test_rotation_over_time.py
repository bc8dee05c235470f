"""At every instant, the leaf that is served verifies against what configurations hold."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.authority import EcForge
from certs.kept import Leaf, Reason
from certs.steps import MakeAuthority, MakeLeaf, Remove
from tests.certs.forging import POLICY, START, CountingForge
from tests.certs.world import HOUR, World, with_life, world

YEARS_3 = 3 * 365 * 24
"""Hours."""
DAY = timedelta(days=1)
HOURS = 25 * 24


def reasons(run: World, kind: type[MakeAuthority] | type[MakeLeaf]) -> list[Reason]:
    return [step.reason for step in run.done if isinstance(step, kind)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_three_years_with_crashes_two_replicas_and_wrong_clocks(seed: int) -> None:
    """A fifth of all turns ends in a crash between two steps."""
    run = world(seed, policy=POLICY, forge=CountingForge(), start=START)
    run.hours(YEARS_3)
    assert run.checks > 4 * YEARS_3
    assert 4 <= len(reasons(run, MakeAuthority)) <= 5
    assert 110 <= len(reasons(run, MakeLeaf)) <= 130
    assert len([s for s in run.done if isinstance(s, Remove)]) >= 4
    assert len(run.kept.authorities) <= 2


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    wipes=st.sets(st.integers(0, 600), max_size=20),
    leaf_requests=st.sets(st.integers(0, 600), max_size=10),
    authority_requests=st.sets(st.integers(0, 600), max_size=10),
)
def test_whatever_others_do(
    seed: int, wipes: set[int], leaf_requests: set[int], authority_requests: set[int]
) -> None:
    """Configurations are applied anew and rotations asked for at any time; lives are short."""
    policy = with_life(POLICY, authority=20 * DAY, leaf=2 * DAY)
    run = world(seed, policy=policy, forge=CountingForge(), start=START)
    for hour in range(600):
        run.hour()
        if hour in wipes:
            run.wiped()
        if hour in leaf_requests:
            run.asked(authority=False)
        if hour in authority_requests:
            run.asked(authority=True)
    assert len(run.kept.authorities) <= 3


@given(cuts=st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_a_crash_after_any_step_of_a_rotation(cuts: list[int]) -> None:
    """Turns that end after 0 to 3 steps, in every order; then one turn per hour ends it."""
    run = world(1, policy=POLICY, forge=CountingForge(), start=START)
    run.asked(authority=True)
    for cut in cuts:
        run.crash_rate = 0.0
        run.lead(run.replicas[cut % 2], most=cut)
        run.hour()
    run.hours(4)
    assert [authority.reason for authority in run.kept.authorities] == [Reason.REQUESTED]
    assert reasons(run, MakeLeaf) == [Reason.AUTHORITY_REPLACED]


class VerifyingWorld(World):
    """Asks a verifier of certificates instead of comparing names."""

    def problem(self, leaf: Leaf, bundle: bytes) -> str:
        store = x509.verification.Store(x509.load_pem_x509_certificates(bundle))
        verifier = (
            x509.verification.PolicyBuilder()
            .store(store)
            .time(self.now)
            .build_server_verifier(x509.DNSName("hooks.ns.svc"))
        )
        try:
            verifier.verify(x509.load_pem_x509_certificate(leaf.certificate), [])
        except x509.verification.VerificationError as error:
            return str(error)
        return ""


@pytest.mark.slow
def test_real_certificates_verify_all_the_time() -> None:
    """The same run with keys and signatures, over two CAs' lives, every hour."""
    policy = with_life(POLICY, authority=12 * DAY, leaf=1 * DAY)
    plain = world(5, policy=policy, forge=EcForge(), start=START)
    run = VerifyingWorld(**vars(plain))
    run.hours(HOURS)
    assert run.now == START + HOURS * HOUR
    assert len(reasons(run, MakeAuthority)) >= 2
    assert run.checks > 4 * HOURS


def test_the_model_tells_a_rotation_without_overlap() -> None:
    """The checks above can fail: with no waits at all, handshakes do."""
    policy = with_life(POLICY, authority=20 * DAY, leaf=2 * DAY)
    hasty = type(policy)(
        names=policy.names,
        authority_life=policy.authority_life,
        leaf_life=policy.leaf_life,
        publish=timedelta(0),
        remove=timedelta(0),
        skew=timedelta(0),
    )
    run = world(1, policy=hasty, forge=CountingForge(), start=START)
    with pytest.raises(AssertionError, match="is signed by"):
        run.hours(20 * 24)
