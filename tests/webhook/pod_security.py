"""The part of Pod Security Standards `restricted` that concerns one container.

From https://kubernetes.io/docs/concepts/security/pod-security-standards/ (1.25 to 1.34); the
pod's own context may stand in where the standard lets it.
"""

from __future__ import annotations

from typing import Any


def violations(container: dict[str, Any], pod_context: dict[str, Any]) -> list[str]:
    """What the standard forbids in a container."""
    context = container.get("securityContext", {})
    inherited = {**pod_context, **context}
    profile = inherited.get("seccompProfile", {}).get("type")
    rules = {
        "allowPrivilegeEscalation": context.get("allowPrivilegeEscalation") is False,
        "privileged": not context.get("privileged"),
        "capabilities.drop": "ALL" in context.get("capabilities", {}).get("drop", []),
        "capabilities.add": not set(context.get("capabilities", {}).get("add", []))
        - {"NET_BIND_SERVICE"},
        "runAsNonRoot": inherited.get("runAsNonRoot") is True,
        "runAsUser": inherited.get("runAsUser") != 0,
        "seccompProfile": profile in ("RuntimeDefault", "Localhost"),
        "procMount": context.get("procMount", "Default") == "Default",
        "hostPorts": not any(port.get("hostPort") for port in container.get("ports", [])),
    }
    return [name for name, kept in rules.items() if not kept]
