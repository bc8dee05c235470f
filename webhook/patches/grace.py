"""The pod's grace period: time for the collector to store the last lines after Ray's end."""

from __future__ import annotations

from webhook.overrides import GRACE_PERIOD, Overrides
from webhook.pod_parts import Part

KUBERNETES_DEFAULT_S = 30


def grace_period_s(spec: Part, *, setting_s: int, overrides: Overrides) -> tuple[int, str]:
    """The grace period that the pod should have, and a warning or nothing.

    A pod without one has 30 by now, since the API server fills defaults in first; so 30 and less
    count as not chosen and are raised to the setting, or to what the annotation says. It is
    never lowered.
    """
    given = spec.get("terminationGracePeriodSeconds")
    own_s = given if isinstance(given, int) else KUBERNETES_DEFAULT_S
    word = overrides.get(GRACE_PERIOD)
    if word and not (word.isdecimal() and 1 <= int(word) <= 86400):
        return max(own_s, setting_s if own_s <= KUBERNETES_DEFAULT_S else 0), (
            f"{GRACE_PERIOD}: {word[:20]!r} is no number of seconds; not used"
        )
    if word:
        return max(own_s, int(word)), ""
    return (max(own_s, setting_s) if own_s <= KUBERNETES_DEFAULT_S else own_s), ""
