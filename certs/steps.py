"""The steps of a rotation, and what is kept after each. Pure: a `Forge` makes the certificates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol, assert_never

from certs.kept import Authority, Kept, Leaf, Reason
from certs.state import Policy


class Milestone(StrEnum):
    """What happened to an authority."""

    PUBLISHED = "published"
    WITHDRAWN = "withdrawn"
    SIGNING = "signing"


@dataclass(frozen=True, slots=True)
class MakeAuthority:
    """Make a CA and keep it, not yet signing."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class MakeLeaf:
    """Make a leaf, signed by this authority; older authorities lose their keys."""

    reason: Reason
    authority: str


@dataclass(frozen=True, slots=True)
class Publish:
    """Bring the bundle into a configuration."""

    configuration: str
    is_repair: bool
    """Something that had been published was gone."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Note the time of a milestone."""

    authority: str
    milestone: Milestone


@dataclass(frozen=True, slots=True)
class Remove:
    """Forget an authority."""

    authority: str


Step = MakeAuthority | MakeLeaf | Publish | Stamp | Remove


class Forge(Protocol):
    """Makes certificates."""

    def authority(self, *, reason: Reason, now: datetime, policy: Policy) -> Authority:
        """A new CA with its key."""
        ...

    def leaf(self, signer: Authority, *, reason: Reason, now: datetime, policy: Policy) -> Leaf:
        """A new leaf for `policy.names`, signed by `signer`, which has its key."""
        ...


def applied(kept: Kept, step: Step, *, forge: Forge, now: datetime, policy: Policy) -> Kept:
    """What is kept after a step. `Publish` changes nothing that is kept."""
    match step:
        case MakeAuthority(reason):
            made = forge.authority(reason=reason, now=now, policy=policy)
            return replace(kept, authorities=(*kept.authorities, made))
        case MakeLeaf():
            return _with_leaf(kept, step, forge=forge, now=now, policy=policy)
        case Stamp(authority, milestone):
            return _changed(kept, authority, **_stamped(milestone, now))
        case Remove(authority):
            left = tuple(a for a in kept.authorities if a.id != authority)
            return replace(kept, authorities=left)
        case Publish():
            return kept
        case _ as never:
            assert_never(never)


def _with_leaf(kept: Kept, step: MakeLeaf, *, forge: Forge, now: datetime, policy: Policy) -> Kept:
    signer = kept.authority(step.authority)
    if signer is None:
        raise ValueError(f"authority {step.authority[:12]} is not kept")
    leaf = forge.leaf(signer, reason=step.reason, now=now, policy=policy)
    place = kept.authorities.index(signer)
    signing = replace(signer, signing_since=signer.signing_since or now)
    older = tuple(replace(a, key=None) for a in kept.authorities[:place])
    return Kept((*older, signing, *kept.authorities[place + 1 :]), leaf)


def _stamped(milestone: Milestone, now: datetime) -> dict[str, datetime | None]:
    match milestone:
        case Milestone.PUBLISHED:
            return {"published_at": now}
        case Milestone.WITHDRAWN:
            return {"published_at": None}
        case Milestone.SIGNING:
            return {"signing_since": now}
        case _ as never:
            assert_never(never)


def _changed(kept: Kept, authority: str, **fields: datetime | None) -> Kept:
    return replace(
        kept,
        authorities=tuple(
            replace(a, **fields) if a.id == authority else a  # type: ignore[arg-type]
            for a in kept.authorities
        ),
    )
