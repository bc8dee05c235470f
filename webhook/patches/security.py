"""The collector's security context: it passes Pod Security `restricted` by itself."""

from __future__ import annotations

from typing import Any

from webhook.pod_parts import Part, part


def security_context(ray: Part, *, pod_context: Part, run_as_user: int | None) -> dict[str, Any]:
    """Everything that `restricted` asks of a container, whatever the pod says for the others.

    The user is the Ray container's, else the pod's, else the setting's: Ray's files can be read
    by any user, but an image with a strict umask would change that. Never root: where Ray is
    root the setting's user is taken, and 1000 where there is none, since `runAsNonRoot` with an
    inherited 0 would keep the pod from starting. SELinux options are the Ray container's: its
    level is on the shared files.
    """
    context: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    own = part(ray, "securityContext")
    user = own.get("runAsUser") or None
    if user is None and not _inherits_user(own, pod_context):
        user = run_as_user
        if user is None and 0 in (own.get("runAsUser"), pod_context.get("runAsUser")):
            user = 1000
    if user is not None:
        context["runAsUser"] = user
    for name in ("runAsGroup", "seLinuxOptions"):
        if own.get(name) is not None:
            context[name] = own[name]
    return context


def _inherits_user(own: Part, pod_context: Part) -> bool:
    """Whether the pod's user holds for the collector, and for Ray, and is not root."""
    return own.get("runAsUser") is None and bool(pod_context.get("runAsUser"))
