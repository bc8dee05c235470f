"""Puts the parts of a serving webhook together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from webhook.admission import Admission, Events
from webhook.certificate import ServingCertificate
from webhook.facts import Accounts, Lookups
from webhook.health import HealthServer, Readiness
from webhook.metrics import WebhookMetrics
from webhook.serving import Parts
from webhook.settings import Settings
from webhook.transport import create_app


def assemble(
    settings: Settings,
    *,
    metrics: WebhookMetrics,
    lookups: Lookups,
    accounts: Accounts,
    events: Events,
    checks: Mapping[str, Callable[[], str]],
    start: Callable[[], None],
    stop: Callable[[], None],
) -> Parts:
    """Make the parts around what asks the cluster; `checks` say what /readyz waits for."""
    certificate = ServingCertificate(settings.tls, metrics)
    readiness = Readiness({"certificate": certificate.problem, **checks})
    admission = Admission(
        settings=settings, lookups=lookups, accounts=accounts, metrics=metrics, events=events
    )
    return Parts(
        app=create_app(
            admission=admission,
            metrics=metrics,
            max_review_bytes=settings.listen.max_review_bytes,
        ),
        certificate=certificate,
        readiness=readiness,
        health=HealthServer(
            address=settings.listen.address,
            port=settings.listen.health_port,
            readiness=readiness,
            metrics=metrics,
        ),
        start=start,
        stop=stop,
    )
