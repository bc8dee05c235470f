"""How option values are written: each parser takes the text and raises ValueError that says why."""

from __future__ import annotations

import re
from collections.abc import Callable

_DURATION_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ms|s|m|h|d)", re.ASCII)
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)
_SIZE = re.compile(r"(\d{1,19}(?:\.\d{1,9})?)\s*([A-Za-z]*)", re.ASCII)
_SIZE_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_DNS1123 = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LARGEST_BYTES = 2**63 - 1
_LONGEST_S = 100 * 365 * 86400.0
"""Clocks and locks of the system take no more than some 290 years."""


def text(value: str) -> str:
    """Any text, without the blanks around it."""
    return value.strip()


def boolean(value: str) -> bool:
    """As Go's flags and Kubernetes manifests write it."""
    match value.strip().lower():
        case "1" | "t" | "true" | "yes" | "on":
            return True
        case "0" | "f" | "false" | "no" | "off":
            return False
        case _:
            raise ValueError("must be true or false")


def duration_s(value: str) -> float:
    """Seconds, from `250ms`, `30s`, `5m`, `1h`, `1h30m`, or a plain number of seconds."""
    compact = value.strip()
    if _NUMBER.fullmatch(compact):
        compact += "s"
    parts = _DURATION_PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise ValueError("must be a duration such as 250ms, 30s, 5m or 1h30m")
    duration = sum(float(number) * _DURATION_UNITS_S[unit] for number, unit in parts)
    if duration > _LONGEST_S:
        raise ValueError("is longer than 100 years")
    return duration


def size_bytes(value: str) -> int:
    """Bytes, from a Kubernetes quantity such as `100Mi`, `2Gi`, `1G`, or a plain number."""
    match = _SIZE.fullmatch(value.strip())
    unit = None if match is None else _SIZE_UNITS.get(match[2].lower().removesuffix("b"))
    if match is None or unit is None:
        raise ValueError("must be a size such as 100Mi, 2Gi or 1G")
    size = int(match[1]) * unit if match[1].isdigit() else int(float(match[1]) * unit)
    if size > _LARGEST_BYTES:
        raise ValueError("is more bytes than any store has")
    return size


def integer(
    minimum: int | None = None,
    maximum: int | None = None,
) -> Callable[[str], int]:
    """A whole number within bounds, both inclusive."""

    def parse(value: str) -> int:
        if re.fullmatch(r"[+-]?\d{1,18}", value.strip(), re.ASCII) is None:
            raise ValueError("must be a whole number")
        number = int(value)
        if minimum is not None and number < minimum:
            raise ValueError(f"must be {minimum} or more")
        if maximum is not None and number > maximum:
            raise ValueError(f"must be {maximum} or less")
        return number

    return parse


def port(value: str) -> int:
    """A TCP port; 0 lets the system choose one."""
    try:
        return integer(0, 65535)(value)
    except ValueError:
        raise ValueError("must be a port from 0 to 65535") from None


def dns1123(value: str) -> str:
    """A name of Kubernetes (DNS-1123 subdomain)."""
    name = value.strip()
    if len(name) > 253 or _DNS1123.fullmatch(name) is None:
        raise ValueError("must be a Kubernetes name: a-z, 0-9, `-` and `.`, at most 253 of them")
    return name


def choice(*allowed: str) -> Callable[[str], str]:
    """One of these, whatever the case; given back as spelt here."""

    def parse(value: str) -> str:
        for candidate in allowed:
            if candidate.casefold() == value.strip().casefold():
                return candidate
        raise ValueError(f"must be one of {', '.join(allowed)}")

    return parse
