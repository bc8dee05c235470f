"""The rights that the webhook needs of a cluster, by what is turned on: no more are used."""

from __future__ import annotations

from typing import Any

Rule = dict[str, Any]


def rights(
    *,
    detects_sidecars: bool,
    makes_accounts: bool,
    reports: bool,
    asks_for_claims: bool = False,
    autoscaler_role: str = "",
) -> list[Rule]:
    """The rules of the ClusterRole."""
    rules = [
        _rule("ray.io", "rayclusters", "get", "list", "watch"),
        _rule("", "namespaces", "get", "list", "watch"),
        _rule("events.k8s.io", "events", "create", "patch"),
    ]
    if detects_sidecars:
        rules.append(_rule("", "nodes", "list"))
    if makes_accounts:
        rules.append(_rule("", "serviceaccounts", "get", "create"))
    if makes_accounts and autoscaler_role:
        group = "rbac.authorization.k8s.io"
        rules.append(_rule(group, "rolebindings", "get", "create"))
        rules.append({**_rule(group, "clusterroles", "bind"), "resourceNames": [autoscaler_role]})
    if asks_for_claims:
        rules.append(_rule("", "persistentvolumeclaims", "get"))
    if reports:
        rules.append(_rule("", "pods", "list"))
    return rules


def _rule(group: str, resource: str, *verbs: str) -> Rule:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
