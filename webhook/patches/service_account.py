"""The name of the account that injected pods of one RayCluster run under."""

from __future__ import annotations

import hashlib
import re
from typing import Any

LIMIT = 253
"""A ServiceAccount's name is a DNS subdomain (RFC 1123)."""
_DIGITS = 10
_FORBIDDEN = re.compile(r"[^a-z0-9.-]+")


def account_name(prefix: str, cluster: str) -> str:
    """PREFIX-RAYCLUSTER, as Container Service for Kubernetes documents it.

    A name that is too long is cut, and ends in a hash of the whole, so that two long clusters
    do not share an account. The same cluster always has the same name.
    """
    name = f"{prefix}-{cluster}"
    plain = _FORBIDDEN.sub("-", name.lower()).strip("-.")
    if plain == name and len(name) <= LIMIT:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
    return f"{plain[: LIMIT - _DIGITS - 1].rstrip('-.')}-{digest}"


def account_fields(name: str) -> dict[str, Any]:
    """The pod's fields: the name, and its deprecated mirror, which must agree."""
    return {"serviceAccountName": name, "serviceAccount": name} if name else {}
