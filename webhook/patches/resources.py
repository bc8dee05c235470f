"""Requests and limits of the collector. Never GPUs or TPUs, and never another container's."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from webhook.overrides import PREFIX, RESOURCE_SUFFIXES, Overrides
from webhook.pod_parts import Part, all_containers, part
from webhook.settings import Resources

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_FACTORS = {"": Decimal(1), "m": Decimal("0.001")} | {
    unit + suffix: Decimal(base) ** power
    for suffix, base, units in (("", 1000, "kMGTPE"), ("i", 1024, "KMGTPE"))
    for power, unit in enumerate(units, start=1)
}


def quantity(value: str) -> Decimal | None:
    """A Kubernetes quantity as a number; None for what is none."""
    match = _QUANTITY.fullmatch(value)
    return Decimal(match[1]) * _FACTORS[match[2] or ""] if match is not None else None


def resources(
    pod: Part, *, settings: Resources, overrides: Overrides
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Both are always there, so that quotas and limit ranges do not refuse the pod; and warnings.

    In a pod of the QoS class Guaranteed, requests are the limits: the class must not change,
    since exclusive CPUs and the order of evictions hang on it.
    """
    chosen = {"requests": dict(settings.requests), "limits": dict(settings.limits)}
    warnings: list[str] = []
    for suffix, (kind, name) in RESOURCE_SUFFIXES.items():
        word = overrides.get(PREFIX + suffix)
        if not word:
            continue
        if quantity(word) is None:
            warnings.append(f"{PREFIX}{suffix}: {word[:20]!r} is no quantity; not used")
        else:
            chosen[kind][name] = word
            _keep_in_order(chosen, kind, name)
    if is_guaranteed(pod):
        chosen["requests"] |= {
            name: chosen["limits"][name] for name in ("cpu", "memory") if name in chosen["limits"]
        }
    return dict(chosen), tuple(warnings)


def _keep_in_order(chosen: dict[str, dict[str, str]], kind: str, name: str) -> None:
    """A request above its limit is refused by Kubernetes: the one just set pulls the other."""
    request, limit = chosen["requests"].get(name), chosen["limits"].get(name)
    if request is None or limit is None:
        return
    wanted, most = quantity(request), quantity(limit)
    if wanted is not None and most is not None and wanted > most:
        other = "limits" if kind == "requests" else "requests"
        chosen[other][name] = chosen[kind][name]


def is_guaranteed(pod: Part) -> bool:
    """Whether the pod, or else every container, has limits for CPU and memory and requests
    nothing less.
    """
    whole = part(part(pod, "spec"), "resources")
    if part(whole, "requests") or part(whole, "limits"):
        return _requests_its_limits(whole)
    return all(
        _requests_its_limits(part(container, "resources")) for container in all_containers(pod)
    )


def _requests_its_limits(amounts: Part) -> bool:
    limits, requests = part(amounts, "limits"), part(amounts, "requests")
    return all(
        name in limits and requests.get(name, limits[name]) == limits[name]
        for name in ("cpu", "memory")
    )
