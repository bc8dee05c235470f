"""The Ray container's postStart hook: ours, the user's, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webhook.patches.hook_script import MARK, command
from webhook.pod_parts import Part, part
from webhook.settings import HookPolicy

_GUIDES_FILE = "raylet_node_id"
"""What the scripts of both guides write; the name is part of Container Service's, too."""


@dataclass(frozen=True, slots=True)
class Hook:
    """What becomes of the container's `lifecycle`."""

    lifecycle: dict[str, Any] | None = None
    """The new value; None leaves it as it is."""
    warning: str = ""


def hook(ray: Part, *, policy: HookPolicy, temp_dir: str, host_pid: bool) -> Hook:
    """Add our hook, if the policy lets it. `preStop` is never touched.

    A user's hook with a guide's script does the work already. With the host's processes in
    sight the script could find another pod's raylet, so it is left out there.
    """
    lifecycle = part(ray, "lifecycle")
    theirs = part(lifecycle, "postStart")
    if policy is HookPolicy.SKIP or host_pid or _is_ours(theirs):
        return Hook()
    argv: list[str] = []
    if theirs and policy is HookPolicy.MERGE:
        argv = _argv(theirs)
        if not argv:
            kind = next(iter(theirs), "unknown")
            return Hook(
                warning=f"the Ray container's postStart hook ({kind}) is kept; ours not set"
            )
        if any(_GUIDES_FILE in word for word in argv):
            return Hook()
    return Hook(
        lifecycle={**lifecycle, "postStart": {"exec": {"command": command(temp_dir, argv)}}},
        warning="the Ray container's postStart hook is replaced, as collector.hookPolicy says"
        if theirs and policy is HookPolicy.OVERRIDE
        else "",
    )


def _argv(handler: Part) -> list[str]:
    words = part(handler, "exec").get("command")
    return [str(word) for word in words] if isinstance(words, list) else []


def _is_ours(handler: Part) -> bool:
    return _argv(handler)[3:4] == [MARK]
