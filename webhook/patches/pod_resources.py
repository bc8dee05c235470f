"""Requests and limits of the pod as a whole, where it has some (Kubernetes 1.34, KEP-2837).

The API server refuses a pod whose containers together request more than the pod does, or one of
which may use more. So the collector's amounts are added to the pod's: Ray keeps what it had.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from webhook.decisions import Reason
from webhook.patches.refusal import PatchRefusedError
from webhook.patches.resources import quantity
from webhook.pod_parts import Part, part, text

_NAMES = ("cpu", "memory")
"""Of those that a pod as a whole may have, the ones that the collector has."""
_UNITS = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def pod_resources(spec: Part, collector: Part) -> Part:
    """The pod's resources with the collector's added; those of the pod where there are none.

    Raises `PatchRefusedError` where an amount cannot be read.
    """
    before = part(spec, "resources")
    after: dict[str, Any] = dict(before)
    for kind in ("requests", "limits"):
        ours, theirs = part(collector, kind), part(before, kind)
        sums = {
            name: _sum(name, text(theirs, name), text(ours, name))
            for name in _NAMES
            if name in theirs and name in ours
        }
        if sums:
            after[kind] = {**theirs, **sums}
    return after


def _sum(name: str, theirs: str, ours: str) -> str:
    amounts = [quantity(theirs), quantity(ours)]
    known = [amount for amount in amounts if amount is not None]
    if len(known) < len(amounts):
        raise PatchRefusedError(
            Reason.MALFORMED, f"the pod's {name} of {theirs[:20]!r} cannot be added to"
        )
    return _text(name, sum(known, Decimal(0)))


def _text(name: str, amount: Decimal) -> str:
    """As Kubernetes would write it, so that nothing seems to have changed afterwards."""
    if name == "cpu":
        thousandths = math.ceil(amount * 1000)
        return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)
    whole = math.ceil(amount)
    for unit, factor in _UNITS:
        if whole % factor == 0:
            return f"{whole // factor}{unit}"
    return str(whole)
