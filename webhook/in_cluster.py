"""The webhook of a real cluster: its parts around the API server's watches."""

from __future__ import annotations

from webhook.assembly import assemble
from webhook.budget import left_s
from webhook.decisions import decide
from webhook.kube.parts import kube_parts
from webhook.metrics import WebhookMetrics
from webhook.serving import Parts
from webhook.settings import Settings


def make_parts(settings: Settings) -> Parts:
    """Make all that serves; nothing is asked before its start. Raises `NoClusterError`."""
    metrics = WebhookMetrics()
    kube = kube_parts(settings, registry=metrics.registry, decide=decide, time_left=left_s)
    return assemble(
        settings,
        metrics=metrics,
        lookups=kube.lookups,
        accounts=kube.accounts,
        events=kube.events,
        checks=kube.checks(),
        start=kube.start,
        stop=kube.stop,
    )
