"""Secrets to pull the collector's image with; they must exist in the pod's namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webhook.pod_parts import Part, named


def missing_pull_secrets(present: Sequence[Part], wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Those that the pod has not."""
    return [{"name": name} for name in dict.fromkeys(wanted) if named(present, name) is None]
