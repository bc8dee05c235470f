"""What is due in one state: each rule of `certs.rotation.plan`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from certs.kept import Kept, Leaf, Reason
from certs.rotation import plan, signing
from certs.state import Configuration, State
from certs.steps import MakeAuthority, MakeLeaf, Milestone, Publish, Remove, Stamp, applied
from tests.certs.forging import NAMES, POLICY, START, CountingForge

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
WAIT = POLICY.publish + POLICY.skew


def settled(now: datetime = START) -> State:
    """One CA and its leaf, published since yesterday."""
    return carried_out(State(Kept(), (Configuration("hooks", (b"",)),)), now - DAY)


def carried_out(state: State, now: datetime) -> State:
    """Everything that is due has been done."""
    for _ in range(20):
        due = plan(state, now, POLICY)
        if not due:
            return state
        state = after(state, due[0], now)
    raise AssertionError(f"never ends: {due}")


def after(state: State, step: object, now: datetime) -> State:
    if isinstance(step, Publish):
        changed = tuple(
            replace(c, bundles=tuple(state.kept.bundle for _ in c.bundles or ()))
            if c.name == step.configuration
            else c
            for c in state.configurations
        )
        return replace(state, configurations=changed)
    kept = applied(state.kept, step, forge=FORGE, now=now, policy=POLICY)  # type: ignore[arg-type]
    return replace(state, kept=kept)


FORGE = CountingForge()


def leaf(state: State) -> Leaf:
    assert state.kept.leaf is not None
    return state.kept.leaf


def test_a_first_installation_needs_no_wait() -> None:
    """CA, leaf and bundle come at once: nobody relies on anything yet."""
    state = State(Kept(), (Configuration("hooks", (b"", b"")),))
    assert plan(state, START, POLICY) == (MakeAuthority(Reason.MISSING),)
    state = after(state, MakeAuthority(Reason.MISSING), START)
    made = state.kept.authorities[0].id
    assert plan(state, START, POLICY) == (MakeLeaf(Reason.MISSING, made),)
    state = carried_out(state, START)
    assert state.configurations[0].bundles == (state.kept.bundle, state.kept.bundle)
    assert state.kept.authorities[0].published_at == START
    assert plan(state, START + DAY, POLICY) == ()


def test_the_leaf_is_renewed_when_a_third_of_its_life_is_left() -> None:
    """Not before, so that an API server that is down for days does no harm."""
    state = settled()
    life = leaf(state).not_after - leaf(state).not_before
    due_at = leaf(state).not_after - life / 3
    assert plan(state, due_at - MINUTE, POLICY) == ()
    assert plan(state, due_at, POLICY) == (MakeLeaf(Reason.EXPIRING, state.kept.authorities[0].id),)


def test_a_new_authority_signs_only_after_it_was_trusted_long_enough() -> None:
    """Publish, wait, sign, wait, remove; the old key goes when the new CA signs."""
    state = after(settled(), MakeAuthority(Reason.REQUESTED), START)
    old, new = state.kept.authorities
    assert plan(state, START, POLICY) == (Publish("hooks", is_repair=False),)
    state = carried_out(state, START)
    assert leaf(state).authority == old.id
    assert plan(state, START + WAIT - MINUTE, POLICY) == ()
    assert plan(state, START + WAIT, POLICY) == (MakeLeaf(Reason.AUTHORITY_REPLACED, new.id),)
    state = carried_out(state, START + WAIT)
    assert [authority.key for authority in state.kept.authorities] == [None, b"key"]
    gone_at = START + WAIT + POLICY.remove + POLICY.skew
    assert plan(state, gone_at - MINUTE, POLICY) == ()
    assert plan(state, gone_at, POLICY) == (Remove(old.id),)
    state = carried_out(state, gone_at)
    assert state.configurations[0].bundles == (state.kept.authorities[0].certificate,)


def test_an_authority_is_replaced_long_before_its_end() -> None:
    """So that every leaf can live its whole life."""
    state = settled()
    authority = state.kept.authorities[0]
    at = authority.not_after - (authority.not_after - authority.not_before) / 3
    assert MakeAuthority(Reason.EXPIRING) not in plan(state, at - MINUTE, POLICY)
    assert MakeAuthority(Reason.EXPIRING) in plan(state, at, POLICY)
    assert authority.not_after - at > timedelta(days=30)


def test_a_wiped_configuration_is_repaired() -> None:
    """In one step, since the CA signs already."""
    state = replace(settled(), configurations=(Configuration("hooks", (b"",)),))
    assert plan(state, START, POLICY) == (Publish("hooks", is_repair=True),)


def test_one_of_two_entries_without_the_bundle_is_enough() -> None:
    """Both entries of a configuration count."""
    state = settled()
    halves = Configuration("hooks", (state.kept.bundle, b""))
    assert plan(replace(state, configurations=(halves,)), START, POLICY) == (
        Publish("hooks", is_repair=True),
    )


def test_a_new_authority_that_was_wiped_waits_anew() -> None:
    """Until it has signed, its time counts from when it is back."""
    state = carried_out(after(settled(), MakeAuthority(Reason.REQUESTED), START), START)
    old, new = state.kept.authorities
    wiped = replace(state, configurations=(Configuration("hooks", (old.certificate,)),))
    at = START + WAIT - MINUTE
    assert plan(wiped, at, POLICY) == (
        Stamp(new.id, Milestone.WITHDRAWN),
        Publish("hooks", is_repair=True),
    )
    healed = carried_out(wiped, at)
    assert plan(healed, START + WAIT, POLICY) == ()
    assert plan(healed, at + WAIT, POLICY) == (MakeLeaf(Reason.AUTHORITY_REPLACED, new.id),)


def test_a_configuration_that_cannot_be_read_holds_a_rotation_but_no_renewal() -> None:
    """It may trust the old CA only."""
    state = carried_out(after(settled(), MakeAuthority(Reason.REQUESTED), START), START)
    old = state.kept.authorities[0]
    blind = replace(state, configurations=(Configuration("hooks", None),))
    assert plan(blind, START + WAIT, POLICY) == ()
    assert plan(blind, START + 13 * DAY, POLICY) == (MakeLeaf(Reason.EXPIRING, old.id),)


def test_a_configuration_that_does_not_exist_holds_nothing_up() -> None:
    """No API server calls by it; when it comes, it gets the whole bundle."""
    state = replace(settled(), configurations=(Configuration("hooks", ()),))
    state = carried_out(after(state, MakeAuthority(Reason.REQUESTED), START), START)
    assert plan(state, START + WAIT, POLICY) != ()


def test_other_names_make_a_new_leaf() -> None:
    """The Service was renamed."""
    state = settled()
    other = replace(POLICY, names=NAMES | {"more"})
    assert plan(state, START, other) == (
        MakeLeaf(Reason.NAMES_CHANGED, state.kept.authorities[0].id),
    )


def test_a_leaf_of_nobody_is_replaced_before_anything_is_published() -> None:
    """Its CA is not ours; what a configuration holds may still fit it."""
    state = settled()
    foreign = replace(state.kept, leaf=replace(leaf(state), authority=""))
    due = plan(replace(state, kept=foreign), START, POLICY)
    assert due[0] == MakeLeaf(Reason.AUTHORITY_UNKNOWN, state.kept.authorities[0].id)
    assert not [step for step in due if isinstance(step, Publish)]


def test_an_empty_secret_takes_no_bundle_away() -> None:
    """When it was deleted, and nothing can be made, the files that are served still verify."""
    state = State(Kept(), (Configuration("hooks", (b"<old>",)),))
    assert plan(state, START, POLICY) == (MakeAuthority(Reason.MISSING),)


def test_a_lost_key_makes_a_new_authority() -> None:
    """The leaf goes on meanwhile."""
    state = settled()
    (only,) = state.kept.authorities
    lost = replace(state, kept=replace(state.kept, authorities=(replace(only, key=None),)))
    assert plan(lost, START, POLICY) == (MakeAuthority(Reason.KEY_LOST),)
    state = carried_out(lost, START)
    assert leaf(state).authority == only.id
    state = carried_out(state, START + WAIT)
    assert leaf(state).authority == state.kept.authorities[-1].id


def test_what_a_clock_that_was_ahead_made_is_replaced() -> None:
    """An API server would not take it yet."""
    ahead = carried_out(State(Kept(), (Configuration("hooks", (b"",)),)), START + 30 * DAY)
    due = plan(ahead, START, POLICY)
    assert due[0] == MakeAuthority(Reason.NOT_YET_VALID)
    state = carried_out(ahead, START)
    assert leaf(state).not_before <= START
    signer = state.kept.authority(leaf(state).authority)
    assert signer is not None
    assert signer.not_before <= START


def test_a_stamp_from_the_future_counts_as_none() -> None:
    """A replica with a broken clock cannot hold a rotation up for ever."""
    state = carried_out(after(settled(), MakeAuthority(Reason.REQUESTED), START), START)
    old, new = state.kept.authorities
    broken = replace(new, published_at=START + 400 * DAY)
    state = replace(state, kept=replace(state.kept, authorities=(old, broken)))
    assert plan(state, START, POLICY) == (Stamp(new.id, Milestone.PUBLISHED),)


def test_an_expired_authority_gives_way_even_unpublished() -> None:
    """When a configuration could not be written for a year, nothing is left to lose."""
    state = settled()
    (old,) = state.kept.authorities
    new = FORGE.authority(reason=Reason.EXPIRING, now=old.not_after - DAY, policy=POLICY)
    kept = replace(state.kept, authorities=(old, new))
    blind = State(kept, (Configuration("hooks", None),))
    assert plan(blind, old.not_after, POLICY) == (MakeLeaf(Reason.AUTHORITY_REPLACED, new.id),)


def test_a_leaf_near_its_authority_s_end_is_not_made_again_and_again() -> None:
    """It cannot live longer than its CA."""
    state = settled()
    (old,) = state.kept.authorities
    near = old.not_after - DAY
    last = FORGE.leaf(old, reason=Reason.EXPIRING, now=near, policy=POLICY)
    kept = replace(state.kept, leaf=last)
    due = plan(replace(state, kept=kept), old.not_after - timedelta(hours=2), POLICY)
    assert not [step for step in due if isinstance(step, MakeLeaf)]


def test_a_newer_authority_that_can_never_sign_is_removed() -> None:
    """Its key was lost before it signed."""
    state = settled()
    new = replace(FORGE.authority(reason=Reason.REQUESTED, now=START, policy=POLICY), key=None)
    kept = replace(state.kept, authorities=(*state.kept.authorities, new))
    due = plan(replace(state, kept=kept), START, POLICY)
    assert Remove(new.id) in due


def test_nothing_can_sign_without_a_key() -> None:
    """Then there is no leaf either."""
    state = settled()
    (only,) = state.kept.authorities
    kept = Kept((replace(only, key=None),), None)
    assert signing(replace(state, kept=kept), START, POLICY) is None
    assert plan(State(kept), START, POLICY)[0] == MakeAuthority(Reason.KEY_LOST)


def test_a_leaf_of_an_authority_that_is_not_kept_is_an_error() -> None:
    """The plan never asks for it."""
    with pytest.raises(ValueError, match="not kept"):
        applied(Kept(), MakeLeaf(Reason.MISSING, "x"), forge=FORGE, now=START, policy=POLICY)
