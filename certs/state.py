"""What rotation is decided upon: what is kept, what configurations hold, and the policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from certs.kept import Authority, Kept


@dataclass(frozen=True, slots=True)
class Policy:
    """Lives and waits."""

    names: frozenset[str]
    """What the leaf must be valid for."""
    authority_life: timedelta = timedelta(days=365)
    leaf_life: timedelta = timedelta(days=14)
    publish: timedelta = timedelta(minutes=5)
    """How long a CA stands in every configuration before a leaf is signed by it."""
    remove: timedelta = timedelta(hours=1)
    """How long the old CA stays after that: replicas read the new leaf, connections end."""
    skew: timedelta = timedelta(minutes=10)
    """How far the clocks of two replicas may be apart."""
    backdate: timedelta = timedelta(hours=1)
    """So much before now a certificate begins, for API servers whose clock is behind."""

    def leaf_end(self, signer: Authority, now: datetime) -> datetime:
        """When a leaf ends that is made now: never after its authority."""
        return min(now - self.backdate + self.leaf_life, signer.not_after)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a webhook configuration holds in the entries that call us."""

    name: str
    bundles: tuple[bytes, ...] | None
    """One per entry; none when the configuration does not exist; `None` when it cannot be read."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """All that is looked at."""

    kept: Kept
    configurations: tuple[Configuration, ...] = ()

    def is_held(self, authority: Authority) -> bool:
        """Whether every configuration holds it. One that cannot be read may not."""
        return all(
            configuration.bundles is not None
            and all(authority.certificate in bundle for bundle in configuration.bundles)
            for configuration in self.configurations
        )

    def is_missing(self, authority: Authority) -> bool:
        """Whether a configuration was seen without it."""
        return any(
            authority.certificate not in bundle
            for configuration in self.configurations
            for bundle in configuration.bundles or ()
        )
