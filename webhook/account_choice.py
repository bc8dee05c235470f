"""Under which ServiceAccount an injected pod runs: a pure choice.

Making the account is `facts.Accounts`' part.
"""

from __future__ import annotations

from dataclasses import dataclass

from webhook.facts import ClusterFacts, Pod
from webhook.patches.service_account import account_name
from webhook.pod_parts import all_containers, env_value, items, named, part, ray_container, text
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
    is_fixed = rule.mode is AccountMode.FIXED
    name = rule.name if is_fixed else account_name(rule.prefix, cluster.name)
    if not rule.replace_under_token_auth and _checks_tokens(pod):
        return AccountChoice(
            warning=f"ServiceAccount kept: Ray checks it by Kubernetes tokens; {name[:40]} not set"
        )
    if is_fixed:
        return AccountChoice(name)
    if dry_run:
        return AccountChoice(warning=f"dry run: ServiceAccount {name[:60]} is neither made nor set")
    return AccountChoice(name, make=True)


def pull_secrets(pod: Pod, *, added: tuple[str, ...]) -> tuple[str, ...]:
    """The pull secrets of a made account: the pod's, and those of the collector's image.

    The pod has those of its old account by now: the API server filled them in before.
    """
    own = [text(secret, "name") for secret in items(part(pod, "spec"), "imagePullSecrets")]
    return tuple(dict.fromkeys(name for name in (*own, *added) if name))


def has_autoscaler(pod: Pod) -> bool:
    """Whether Ray's autoscaler runs in this pod, under the pod's account."""
    return named(list(all_containers(pod)), "autoscaler") is not None


def _checks_tokens(pod: Pod) -> bool:
    value = env_value(ray_container(pod), "RAY_ENABLE_K8S_TOKEN_AUTH")
    return (value or "").lower() in ("1", "true")
