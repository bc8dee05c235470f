"""`certs show`: what is kept, who trusts it, what comes next. Never a key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime

import msgspec

from certs.cluster import Lease
from certs.kept import Authority
from certs.looks import Look
from certs.rotation import plan
from certs.state import Policy, State
from certs.steps import Step


class AuthorityReport(msgspec.Struct, frozen=True, rename="camel"):
    """A CA."""

    id: str
    stage: str
    """`new`, `published`, `signing` or `old`."""
    reason: str
    not_before: datetime
    not_after: datetime
    published_at: datetime | None
    signing_since: datetime | None


class LeafReport(msgspec.Struct, frozen=True, rename="camel"):
    """The leaf."""

    id: str
    authority: str
    reason: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime


class ConfigurationReport(msgspec.Struct, frozen=True, rename="camel"):
    """A webhook configuration."""

    name: str
    state: str
    """`current`, `outdated`, `missing` (it or its entries do not exist) or `unreadable`."""


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """All of it."""

    leader: str
    authorities: tuple[AuthorityReport, ...]
    leaf: LeafReport | None
    configurations: tuple[ConfigurationReport, ...]
    due: tuple[str, ...]
    problems: tuple[str, ...]


def report(look: Look, lease: Lease | None, *, now: datetime, policy: Policy) -> Report:
    """What a look tells."""
    kept = look.state.kept
    leaf = kept.leaf
    return Report(
        leader=lease.holder if lease is not None else "",
        authorities=tuple(
            _authority(authority, place - kept.signed_by)
            for place, authority in enumerate(kept.authorities)
        ),
        leaf=None
        if leaf is None
        else LeafReport(
            id=leaf.id,
            authority=leaf.authority,
            reason=leaf.reason.value,
            names=tuple(sorted(leaf.names)),
            not_before=leaf.not_before,
            not_after=leaf.not_after,
        ),
        configurations=tuple(_configurations(look.state)),
        due=tuple(_told(step) for step in plan(look.state, now, policy)),
        problems=tuple(_problems(look, now)),
    )


def text(shown: Report) -> str:
    """For people."""
    return "\n".join(_lines(shown))


def _lines(shown: Report) -> Iterator[str]:
    for authority in shown.authorities:
        yield f"CA    {authority.id[:12]}  ends {_day(authority.not_after)}  {authority.stage}"
    if shown.leaf is not None:
        leaf = shown.leaf
        yield f"leaf  {leaf.id[:12]}  ends {_day(leaf.not_after)}  by CA {leaf.authority[:12]}"
        yield f"      for {', '.join(leaf.names)}"
    for configuration in shown.configurations:
        yield f"configuration {configuration.name}: {configuration.state}"
    yield f"leader: {shown.leader or 'nobody'}"
    for due in shown.due:
        yield f"due: {due}"
    for problem in shown.problems:
        yield f"problem: {problem}"


def _day(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC")


def _authority(authority: Authority, after_signer: int) -> AuthorityReport:
    if after_signer == 0:
        stage = "signing"
    elif after_signer < 0:
        stage = "old"
    else:
        stage = "published" if authority.published_at is not None else "new"
    return AuthorityReport(
        id=authority.id,
        stage=stage,
        reason=authority.reason.value,
        not_before=authority.not_before,
        not_after=authority.not_after,
        published_at=authority.published_at,
        signing_since=authority.signing_since,
    )


def _configurations(state: State) -> Iterator[ConfigurationReport]:
    for configuration in state.configurations:
        if configuration.bundles is None:
            seen = "unreadable"
        elif not configuration.bundles:
            seen = "missing"
        elif all(bundle == state.kept.bundle for bundle in configuration.bundles):
            seen = "current"
        else:
            seen = "outdated"
        yield ConfigurationReport(configuration.name, seen)


def _problems(look: Look, now: datetime) -> Iterator[str]:
    yield from look.problems
    kept = look.state.kept
    if look.secret is None:
        yield "the Secret does not exist"
    if kept.leaf is None:
        yield "there is no leaf"
        return
    if kept.leaf.not_after <= now:
        yield "the leaf has expired"
    signer = kept.authority(kept.leaf.authority)
    if signer is None:
        yield "no CA that is kept signed the leaf"
    elif not look.state.is_held(signer):
        yield "not every configuration trusts the CA that signed the leaf"


def _told(step: Step) -> str:
    values = (str(getattr(step, field.name)) for field in fields(step))
    shown = (value[:12] if len(value) == 64 else value for value in values)
    return " ".join([type(step).__name__, *shown])
