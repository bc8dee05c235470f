"""Puts together what asks and tells the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from webhook.kube import clusters, namespaces
from webhook.kube.accounts import KubeAccounts
from webhook.kube.client import Api, Bounds, connect
from webhook.kube.clusters import ClusterCopy, of_use
from webhook.kube.events import KubeEvents
from webhook.kube.lookups import KubeLookups
from webhook.kube.metrics import KubeMetrics
from webhook.kube.namespaces import NamespaceCopy
from webhook.kube.periodic import Periodic
from webhook.kube.reconcile import Decide, Reconcile
from webhook.kube.versions import SidecarSupport
from webhook.kube.watching import Watch
from webhook.settings import ACK_ANNOTATION, INJECT, Settings


@dataclass(frozen=True, slots=True)
class KubeParts:
    """The webhook's side of the API server."""

    lookups: KubeLookups
    accounts: KubeAccounts
    events: KubeEvents
    watches: tuple[Watch, ...]
    sidecars: SidecarSupport
    reporter: Periodic | None
    api: Api

    def start(self) -> None:
        """Begin all threads. After gunicorn's fork."""
        for watch in self.watches:
            watch.start()
        self.sidecars.start()
        self.events.start()
        if self.reporter is not None:
            self.reporter.start()

    def stop(self) -> None:
        """End all threads, and close the connections."""
        for watch in self.watches:
            watch.stop()
        self.sidecars.stop()
        self.events.stop()
        if self.reporter is not None:
            self.reporter.stop()
        self.api.close()

    def join(self, timeout_s: float) -> None:
        """Wait for the end of all threads."""
        ending = (*self.watches, self.sidecars, self.events, self.reporter)
        for part in ending:
            if part is not None:
                part.join(timeout_s)

    def synced(self) -> bool:
        """Whether reviews can be answered from the copies."""
        return not any(check() for check in self.checks().values())

    def checks(self) -> Mapping[str, Callable[[], str]]:
        """What readiness waits for: each says what is missing, or nothing."""
        return {
            **{watch.resource: watch.problem for watch in self.watches},
            "sidecars": self.sidecars.problem,
        }


def kube_parts(
    settings: Settings,
    *,
    registry: CollectorRegistry,
    decide: Decide,
    time_left: Callable[[float], float] = lambda limit_s: limit_s,
    api: Api | None = None,
) -> KubeParts:
    """Connect; nothing is asked before `start`. Raises `NoClusterError`.

    `time_left` bounds a call within a review by what the review has left.
    """
    api = api or connect(settings.kubernetes.kubeconfig)
    metrics = KubeMetrics(registry)
    keeps = of_use(settings.scope.label, INJECT, ACK_ANNOTATION)
    cluster_copy, namespace_copy = ClusterCopy(keeps), NamespaceCopy(keeps)
    watches = (
        Watch(clusters.RESOURCE, clusters.PATH, copy=cluster_copy, api=api, metrics=metrics),
        Watch(namespaces.RESOURCE, namespaces.PATH, copy=namespace_copy, api=api, metrics=metrics),
    )
    sidecars = SidecarSupport(api, mode=settings.collector.mode)
    metrics.sidecar_support(sidecars.is_native)
    bounds = Bounds(settings.kubernetes.lookup_timeout_s, time_left)
    lookups = KubeLookups(
        api=api,
        cluster_copy=cluster_copy,
        namespace_copy=namespace_copy,
        sidecars=sidecars,
        metrics=metrics,
        bounds=bounds,
    )
    accounts = KubeAccounts(api=api, rule=settings.service_account, metrics=metrics, bounds=bounds)
    events = KubeEvents(api=api, metrics=metrics)
    reconcile = Reconcile(
        api=api,
        known=lookups,
        decide=decide,
        record=events.record,
        settings=settings,
        metrics=metrics,
        is_synced=lambda: all(watch.synced() for watch in watches),
    )
    reporter = _reporter(reconcile, settings.kubernetes.report_every_s)
    return KubeParts(lookups, accounts, events, watches, sidecars, reporter, api)


def _reporter(reconcile: Reconcile, every_s: float) -> Periodic | None:
    """0 turns the report off, and with it the right to list pods."""
    return Periodic("reconcile", once=reconcile.once, every_s=every_s) if every_s else None
