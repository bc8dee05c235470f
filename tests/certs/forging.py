"""Certificates without cryptography, for runs over years."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

from certs.kept import Authority, Leaf, Reason
from certs.state import Policy

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = frozenset({"hooks.ns.svc", "hooks.ns.svc.cluster.local"})
POLICY = Policy(names=NAMES)


class CountingForge:
    """A `Forge` whose certificates are numbered texts."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def authority(self, *, reason: Reason, now: datetime, policy: Policy) -> Authority:
        number = next(self._numbers)
        begins = now - policy.backdate
        return Authority(
            id=f"ca-{number}",
            certificate=f"<ca-{number}>".encode(),
            not_before=begins,
            not_after=begins + policy.authority_life,
            reason=reason,
            key=b"key",
        )

    def leaf(self, signer: Authority, *, reason: Reason, now: datetime, policy: Policy) -> Leaf:
        assert signer.key is not None
        number = next(self._numbers)
        return Leaf(
            id=f"leaf-{number}",
            certificate=f"<leaf-{number}>".encode(),
            key=b"key",
            authority=signer.id,
            names=policy.names,
            not_before=now - policy.backdate,
            not_after=policy.leaf_end(signer, now),
            reason=reason,
        )
