"""Why a pod that was meant to have a collector cannot have one."""

from __future__ import annotations

from webhook.decisions import Reason


class PatchRefusedError(Exception):
    """The pod must be admitted as it came."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
