"""Under which ServiceAccount an injected pod runs: a pure choice.

Making the account is `facts.Accounts`' part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.facts import ClusterFacts, Pod
from webhook.settings import AccountMode, ServiceAccount


@dataclass(frozen=True, slots=True)
class AccountChoice:
    """The account, and whether it may have to be made first."""

    name: str = ""
    """Empty leaves the pod's own."""
    make: bool = False
    warning: str = ""


def choose_account(
    pod: Pod, *, cluster: ClusterFacts, rule: ServiceAccount, dry_run: bool
) -> AccountChoice:
    """Apply the account rule to one pod.

    With Ray's Kubernetes token authentication the account is the pod's identity towards Ray, so
    it stays unless the settings say otherwise (ray-project/kuberay#2585). A dry run makes
    nothing, and a pod that names a missing account is refused, so there the pod's own stays.
    """
    if rule.mode is AccountMode.PRESERVE:
        return AccountChoice()
    name = rule.name if rule.mode is AccountMode.FIXED else f"{rule.prefix}-{cluster.name}"
    if _own_account(pod) == name and rule.mode is AccountMode.FIXED:
        return AccountChoice(name)
    if not rule.replace_under_token_auth and _checks_tokens(pod):
        return AccountChoice(
            warning=f"ServiceAccount kept: Ray checks it by Kubernetes tokens; {name[:40]} not set"
        )
    if rule.mode is AccountMode.FIXED:
        return AccountChoice(name)
    if dry_run:
        return AccountChoice(warning=f"dry run: ServiceAccount {name[:60]} is neither made nor set")
    return AccountChoice(name, make=True)


def pull_secrets(pod: Pod, *, added: tuple[str, ...]) -> tuple[str, ...]:
    """The pull secrets of a made account: the pod's, and those of the collector's image.

    The pod has those of its old account by now: the API server filled them in before.
    """
    own = [
        str(secret.get("name", ""))
        for secret in _items(_spec(pod).get("imagePullSecrets"))
        if secret.get("name")
    ]
    return tuple(dict.fromkeys([*own, *added]))


def has_autoscaler(pod: Pod) -> bool:
    """Whether Ray's autoscaler runs in this pod, under the pod's account."""
    return any(
        container.get("name") == "autoscaler"
        for field in ("containers", "initContainers")
        for container in _items(_spec(pod).get(field))
    )


def _checks_tokens(pod: Pod) -> bool:
    containers = _items(_spec(pod).get("containers"))
    return any(
        variable.get("name") == "RAY_ENABLE_K8S_TOKEN_AUTH"
        and str(variable.get("value", "")).lower() in ("1", "true")
        for variable in _items(containers[0].get("env") if containers else None)
    )


def _own_account(pod: Pod) -> str:
    return str(_spec(pod).get("serviceAccountName") or "")


def _spec(pod: Pod) -> Mapping[str, Any]:
    spec = pod.get("spec")
    return spec if isinstance(spec, dict) else {}


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
