"""What `certs` needs of a cluster: one Secret, one Lease, and some webhook configurations.

Every object has a version; a write names the version that it was decided upon, and fails when
another writer came first. That, not the Lease, is what makes several writers safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from certs.state import Configuration


class Failure(StrEnum):
    """Why a call to the API server failed. In logs and in the metric."""

    CONFLICT = "conflict"
    """Another writer came first: look again."""
    FORBIDDEN = "forbidden"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"


class ClusterError(Exception):
    """A call to the API server failed."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Secret:
    """The Secret's values."""

    data: Mapping[str, bytes] = field(repr=False)
    version: str


@dataclass(frozen=True, slots=True)
class Lease:
    """Who leads, as the Lease says."""

    holder: str
    """Empty: nobody."""
    duration_s: int
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    transitions: int = 0
    version: str = ""
    """Empty: it does not exist yet."""


class Cluster(Protocol):
    """Each method raises `ClusterError`."""

    def secret(self) -> Secret | None:
        """The Secret; None when it does not exist."""
        ...

    def write_secret(self, data: Mapping[str, bytes], *, version: str) -> None:
        """Replace these values if the Secret still has this version."""
        ...

    def create_secret(self, data: Mapping[str, bytes]) -> None:
        """Make the Secret; a conflict when it exists."""
        ...

    def configuration(self, name: str) -> Configuration:
        """What the entries hold that call our Service."""
        ...

    def publish(self, name: str, bundle: bytes, *, version: str) -> None:
        """Give this bundle to these entries if the configuration still has this version."""
        ...

    def lease(self) -> Lease | None:
        """The Lease; None when it does not exist."""
        ...

    def write_lease(self, lease: Lease) -> None:
        """Write it if it still has `lease.version`; make it when that is empty."""
        ...
