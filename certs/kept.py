"""What is kept: the authorities that are trusted, and the leaf that is served."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Reason(StrEnum):
    """Why a certificate was made. In logs, in the metric, and kept with the certificate."""

    MISSING = "missing"
    EXPIRING = "expiring"
    REQUESTED = "requested"
    """By `certs rotate`."""
    NAMES_CHANGED = "names_changed"
    AUTHORITY_REPLACED = "authority_replaced"
    """A newer CA has been trusted long enough."""
    AUTHORITY_UNKNOWN = "authority_unknown"
    """No CA of ours signed the leaf, or that CA is of no use any more."""
    KEY_LOST = "key_lost"
    """The newest CA has no key, so nothing can be signed."""
    NOT_YET_VALID = "not_yet_valid"
    """Made by a clock that was ahead."""
    UNKNOWN = "unknown"
    """Made by another version of this program, which has more reasons."""

    @classmethod
    def _missing_(cls, value: object) -> Reason:
        del value
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA. Its key is dropped when a newer one signs."""

    id: str
    """SHA-256 of the certificate, in hex."""
    certificate: bytes
    """PEM."""
    not_before: datetime
    not_after: datetime
    reason: Reason = Reason.MISSING
    key: bytes | None = field(default=None, repr=False)
    """PEM."""
    published_at: datetime | None = None
    """Since when every webhook configuration was seen to hold it."""
    signing_since: datetime | None = None
    """When it signed its first leaf."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The serving certificate with its key."""

    id: str
    """SHA-256 of the certificate, in hex."""
    certificate: bytes
    """PEM."""
    key: bytes = field(repr=False)
    """PEM."""
    authority: str
    """`id` of the authority that signed it; empty when that is none of ours."""
    names: frozenset[str]
    not_before: datetime
    not_after: datetime
    reason: Reason = Reason.MISSING


@dataclass(frozen=True, slots=True)
class Kept:
    """The content of the Secret."""

    authorities: tuple[Authority, ...] = ()
    """Oldest first. All are trusted; the newest that is trusted everywhere signs."""
    leaf: Leaf | None = None

    @property
    def bundle(self) -> bytes:
        """What webhook configurations hold: every authority, as PEM."""
        return b"".join(authority.certificate for authority in self.authorities)

    def authority(self, wanted: str) -> Authority | None:
        """The authority with this `id`."""
        return next((a for a in self.authorities if a.id == wanted), None)

    @property
    def signed_by(self) -> int:
        """Place of the leaf's authority in `authorities`; -1 when it is none of them."""
        if self.leaf is None:
            return -1
        ids = [authority.id for authority in self.authorities]
        return ids.index(self.leaf.authority) if self.leaf.authority in ids else -1
