"""Alibaba Cloud's RAM roles for service accounts (RRSA), for the collector alone.

The manual form that the vendor documents: three variables and a projected token. Container
Service's own webhook does the same to every container; what it has done is left as it is.
"""

from __future__ import annotations

from typing import Any

from webhook.settings import Rrsa

VOLUME = "rrsa-oidc-token"
FOLDER = "/var/run/secrets/ack.alibabacloud.com/rrsa-tokens"
TOKEN_FILE = "ALIBABA_CLOUD_OIDC_TOKEN_FILE"  # noqa: S105 - a name


def rrsa_env(settings: Rrsa) -> list[dict[str, Any]]:
    """The variables that Alibaba Cloud's SDKs read."""
    if not settings.enabled:
        return []
    return [
        {"name": "ALIBABA_CLOUD_ROLE_ARN", "value": settings.role_arn},
        {"name": "ALIBABA_CLOUD_OIDC_PROVIDER_ARN", "value": settings.provider_arn},
        {"name": TOKEN_FILE, "value": f"{FOLDER}/token"},
    ]


def rrsa_mounts(settings: Rrsa) -> list[dict[str, Any]]:
    """The token's folder."""
    if not settings.enabled:
        return []
    return [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}]


def rrsa_volumes(settings: Rrsa) -> list[dict[str, Any]]:
    """The token; mode 0644, since the collector is not root and the pod may have no fsGroup."""
    if not settings.enabled:
        return []
    token = {
        "audience": settings.audience,
        "expirationSeconds": settings.expiration_s,
        "path": "token",
    }
    sources = [{"serviceAccountToken": token}]
    return [{"name": VOLUME, "projected": {"defaultMode": 0o644, "sources": sources}}]
