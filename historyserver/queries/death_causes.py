"""Why an actor died, as events carry it and as Ray's two actor APIs show it."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import msgspec

_IDS = frozenset({"actor_id", "owner_id", "job_id", "node_id", "placement_group_id"})
_CONTEXTS = (
    ("actorDiedErrorContext", "errorMessage"),
    ("runtimeEnvFailedContext", "errorMessage"),
    ("actorUnschedulableContext", "errorMessage"),
    ("creationTaskFailureContext", "formattedExceptionString"),
    ("oomContext", "errorMessage"),
)
_HUMP = re.compile(r"(?<!^)(?=[A-Z])")
_HEX = re.compile(r"[0-9a-f]+\Z")
_HEX_LENGTHS = frozenset({8, 32, 36, 56})
"""Of job, actor, placement group and node or worker ids; base64 of them has other lengths."""


def parsed(death_cause_json: str) -> dict[str, Any]:
    """The event's `deathCause`; {} when there is none or it is not an object."""
    try:
        return msgspec.json.decode(death_cause_json or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def exit_detail(death_cause: dict[str, Any]) -> str:
    """The dashboard's one line; "-" while the actor lives."""
    for context, message in _CONTEXTS:
        found = death_cause.get(context)
        if isinstance(found, dict):
            return str(found.get(message) or "")
    return "-"


def state_api_form(death_cause: dict[str, Any]) -> dict[str, Any] | None:
    """The State API's form: snake_case names, hex ids."""
    return _snake(death_cause) if death_cause else None


def _snake(value: Any) -> Any:
    if isinstance(value, dict):
        named = ((_HUMP.sub("_", key).lower(), item) for key, item in value.items())
        return {
            name: _hex(item) if name in _IDS and isinstance(item, str) else _snake(item)
            for name, item in named
        }
    if isinstance(value, list):
        return [_snake(item) for item in value]
    return value


def _hex(text: str) -> str:
    """An id as hex, whether it is base64 (as in events) or hex already."""
    if len(text) in _HEX_LENGTHS and _HEX.match(text):
        return text
    try:
        return base64.b64decode(text, altchars=b"-_" if "-" in text or "_" in text else None).hex()
    except (binascii.Error, ValueError):
        return text
