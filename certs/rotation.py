"""What is due: pure functions of what is kept, what configurations hold, and the time.

A new CA goes through four stages, and at each the leaf that is served verifies against the
bundle that the API server has:

1. made: it is in the Secret;
2. published: every webhook configuration holds it beside the old one;
3. signing: it has been there long enough, so the next leaf is signed by it;
4. alone: every replica has served the new leaf long enough, so the old CA goes.

Each step is safe by itself: after any of them the process may end, and another replica goes on.
Times were perhaps stamped by another replica's clock, so each wait is longer by `Policy.skew`,
and a stamp from the future counts as none.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from certs.kept import Authority, Kept, Leaf, Reason
from certs.state import Configuration, Policy, State
from certs.steps import MakeAuthority, MakeLeaf, Milestone, Publish, Remove, Stamp, Step

RENEWED_WHEN_LEFT = 1 / 3
"""Part of a certificate's life at whose beginning the next one is made."""
_WORTH_IT = timedelta(hours=1)
"""A renewed leaf must live so much longer: near its CA's end it cannot."""


def plan(state: State, now: datetime, policy: Policy) -> tuple[Step, ...]:
    """What is due, in order. Do the first, look again, and ask again.

    A step that fails may be left out: those after it are safe without it.
    """
    return tuple(_steps(state, now, policy))


def _steps(state: State, now: datetime, policy: Policy) -> Iterator[Step]:
    kept = state.kept
    if reason := _authority_due(kept, now):
        yield MakeAuthority(reason)
    leaf = _leaf_due(state, now, policy)
    if leaf is not None and leaf.reason in _URGENT:
        yield leaf
    yield from _withdrawals(state)
    yield from _publications(state)
    yield from _stamps(state, now, policy)
    if leaf is not None and leaf.reason not in _URGENT:
        yield leaf
    yield from _removals(kept, now, policy)


_URGENT = frozenset({Reason.MISSING, Reason.AUTHORITY_UNKNOWN, Reason.NOT_YET_VALID})
"""Nothing that is served now verifies: no wait makes that better."""


def _authority_due(kept: Kept, now: datetime) -> Reason | None:
    if not kept.authorities:
        return Reason.MISSING
    newest = kept.authorities[-1]
    if newest.key is None:
        return Reason.KEY_LOST
    if newest.not_before > now:
        return Reason.NOT_YET_VALID
    if _is_near_end(newest, now):
        return Reason.EXPIRING
    return None


def _is_near_end(certificate: Authority | Leaf, now: datetime) -> bool:
    life = certificate.not_after - certificate.not_before
    return certificate.not_after - now <= life * RENEWED_WHEN_LEFT


def _leaf_due(state: State, now: datetime, policy: Policy) -> MakeLeaf | None:
    signer = signing(state, now, policy)
    if signer is None:
        return None
    reason = _leaf_reason(state.kept, signer, now, policy)
    return None if reason is None else MakeLeaf(reason, signer.id)


def _leaf_reason(kept: Kept, signer: Authority, now: datetime, policy: Policy) -> Reason | None:
    leaf = kept.leaf
    if leaf is None:
        return Reason.MISSING
    is_longer = policy.leaf_end(signer, now) > leaf.not_after + _WORTH_IT
    holds = {
        Reason.AUTHORITY_UNKNOWN: kept.signed_by < 0,
        Reason.NOT_YET_VALID: leaf.not_before > now,
        Reason.NAMES_CHANGED: leaf.names != policy.names,
        Reason.AUTHORITY_REPLACED: signer.id != leaf.authority,
        Reason.EXPIRING: is_longer and _is_near_end(leaf, now),
    }
    return next((reason for reason, it_does in holds.items() if it_does), None)


def signing(state: State, now: datetime, policy: Policy) -> Authority | None:
    """Which authority signs the next leaf; None: none can, or none should yet.

    The newest that is trusted everywhere for long enough, else the one that signed the present
    leaf. When neither can sign, the newest of any use does, but not while the present leaf
    serves: there is time to have the newest one trusted first.
    """
    kept = state.kept
    usable = [a for a in kept.authorities if _is_usable(a, now, policy)]
    current = kept.leaf.authority if kept.leaf is not None else ""
    settled = [a for a in usable if a.id == current or _is_settled(a, state, now, policy)]
    best = settled if settled or _serves(kept, now, policy) else usable
    return best[-1] if best else None


def _serves(kept: Kept, now: datetime, policy: Policy) -> bool:
    """Whether the leaf will be good for longer than it takes to have a CA trusted."""
    leaf = kept.leaf
    if leaf is None or kept.signed_by < 0:
        return False
    return leaf.not_before <= now and leaf.not_after - now > policy.publish + 2 * policy.skew


def _is_usable(authority: Authority, now: datetime, policy: Policy) -> bool:
    return (
        authority.key is not None
        and authority.not_before <= now
        and authority.not_after - now > policy.skew
    )


def _is_settled(authority: Authority, state: State, now: datetime, policy: Policy) -> bool:
    return state.is_held(authority) and _has_passed(
        authority.published_at, policy.publish, now, policy
    )


def _has_passed(since: datetime | None, wait: timedelta, now: datetime, policy: Policy) -> bool:
    return since is not None and now - since >= wait + policy.skew


def _publications(state: State) -> Iterator[Step]:
    """Nothing while no CA of ours signed the leaf: what is there may still be of use."""
    if state.kept.signed_by < 0:
        return
    for configuration in state.configurations:
        if any(bundle != state.kept.bundle for bundle in configuration.bundles or ()):
            yield Publish(configuration.name, is_repair=_is_repair(state.kept, configuration))


def _is_repair(kept: Kept, configuration: Configuration) -> bool:
    return any(
        authority.published_at is not None and authority.certificate not in bundle
        for authority in kept.authorities
        for bundle in configuration.bundles or ()
    )


def _withdrawals(state: State) -> Iterator[Step]:
    """A CA that was wiped before it signed must wait anew once it is back."""
    for authority in state.kept.authorities[state.kept.signed_by + 1 :]:
        if authority.published_at is not None and state.is_missing(authority):
            yield Stamp(authority.id, Milestone.WITHDRAWN)


def _stamps(state: State, now: datetime, policy: Policy) -> Iterator[Step]:
    for place, authority in enumerate(state.kept.authorities):
        if _is_unstamped(authority.published_at, now, policy) and state.is_held(authority):
            yield Stamp(authority.id, Milestone.PUBLISHED)
        is_signing = place == state.kept.signed_by
        if is_signing and _is_unstamped(authority.signing_since, now, policy):
            yield Stamp(authority.id, Milestone.SIGNING)


def _is_unstamped(stamp: datetime | None, now: datetime, policy: Policy) -> bool:
    return stamp is None or stamp > now + policy.skew


def _removals(kept: Kept, now: datetime, policy: Policy) -> Iterator[Step]:
    """Older ones when the present one has signed for long; newer ones that can never sign."""
    place = kept.signed_by
    if place < 0:
        return
    since = kept.authorities[place].signing_since
    if _has_passed(since, policy.remove, now, policy):
        for authority in kept.authorities[:place]:
            yield Remove(authority.id)
    for authority in kept.authorities[place + 1 :]:
        if authority.key is None or authority.not_after <= now:
            yield Remove(authority.id)
