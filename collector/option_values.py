"""How option values that only the collector has are written."""

from __future__ import annotations

import ipaddress
import re

MAX_ADDITIONAL = 100
MAX_PATH_CHARS = 250
"""With everything escaped it still fits into an object key."""

_REQUEST_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+;=:@%/?-]+")


def request_paths(value: str) -> tuple[str, ...]:
    """Paths with query, separated by commas; blanks around them and repetitions do not count."""
    paths = dict.fromkeys(part.strip() for part in value.split(",") if part.strip())
    for path in paths:
        if len(path) > MAX_PATH_CHARS or not _REQUEST_PATH.fullmatch(path) or _climbs(path):
            raise ValueError(
                "must be paths separated by commas, each as in a request, such as "
                f"/api/v0/workers?limit=10; {path} is none"
            )
    if len(paths) > MAX_ADDITIONAL:
        raise ValueError(f"must be {MAX_ADDITIONAL} paths at most")
    return tuple(paths)


def ip_address_or_none(value: str) -> str:
    """An IP address; nothing is none."""
    address = value.strip()
    if address:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise ValueError("must be an IP address such as 10.0.0.7") from None
    return address


def _climbs(path: str) -> bool:
    """Whether it has parts that a client or server would take out."""
    parts = path.partition("?")[0].split("/")
    return not any(parts) or any(part in {".", ".."} for part in parts)
