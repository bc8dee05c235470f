"""Finds running Ray pods that should have a collector and have none.

A pod made while the webhook was down stays without one for its life, and nobody sees it
(the API server ignores a webhook that fails). So all Ray pods are looked at again and again,
with the same decision: a gauge by namespace and reason, and an Event on the RayCluster.
Every replica reports; the Events have the same name, so there is one.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from webhook.decisions import Decision, Reason
from webhook.facts import ClusterFacts, NamespaceFacts, Pod
from webhook.kube.client import Api, KubeError
from webhook.kube.metrics import KubeMetrics
from webhook.kube.wire import PodList
from webhook.settings import Settings

_log = logging.getLogger("webhook.kube.reconcile")

SELECTOR = "ray.io/cluster,ray.io/node-type in (head,worker)"
ALIVE = "status.phase!=Succeeded,status.phase!=Failed"

_PAGE = "100"
_TIMEOUT_S = 30.0
_AGAIN_S = 3000.0
"""Kubernetes forgets an Event after an hour; before that, its count is raised."""


class Report(StrEnum):
    """Why a RayCluster got an Event of this round."""

    COLLECTOR_MISSING = "collector_missing"


class Decide(Protocol):
    """`webhook.decisions.decide`."""

    def __call__(
        self,
        pod: Pod,
        *,
        namespace: NamespaceFacts | None,
        cluster: ClusterFacts | None,
        settings: Settings,
    ) -> Decision:
        """Whether a pod gets a collector, and why."""


class Known(Protocol):
    """The watches' copies."""

    def known_cluster(self, namespace: str, name: str) -> ClusterFacts | None:
        """The RayCluster, if the watch has it."""

    def known_namespace(self, name: str) -> NamespaceFacts | None:
        """The namespace, if the watch has it."""


class Record(Protocol):
    """`KubeEvents.record`."""

    def __call__(self, cluster: ClusterFacts, reason: str, message: str, kind: str) -> None:
        """Note an Event on the RayCluster."""


class Reconcile:
    """One round at a time."""

    def __init__(
        self,
        *,
        api: Api,
        known: Known,
        decide: Decide,
        record: Record,
        settings: Settings,
        metrics: KubeMetrics,
        is_synced: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Before the copies are synced nothing can be said of a pod."""
        self._api = api
        self._known = known
        self._decide = decide
        self._record = record
        self._settings = settings
        self._metrics = metrics
        self._is_synced = is_synced
        self._clock = clock
        self._told: dict[tuple[str, str, str], float] = {}

    def once(self) -> None:
        """Look at all Ray pods once."""
        if not self._is_synced():
            return
        missing: Counter[tuple[str, str]] = Counter()
        clusters: Counter[tuple[str, str]] = Counter()
        try:
            for pod in self._pods():
                decision = self._judged(pod)
                if decision is not None and _is_missing(decision):
                    namespace, cluster = _place(pod)
                    missing[namespace, decision.reason.value] += 1
                    clusters[namespace, cluster] += 1
        except (KubeError, msgspec.MsgspecError) as error:
            self._metrics.reported(None)
            _log.warning("Ray pods cannot be listed: %s", error)
            return
        self._metrics.reported(missing)
        self._tell(clusters)

    def _pods(self) -> Iterator[dict[str, Any]]:
        place = ""
        while True:
            query = {"labelSelector": SELECTOR, "fieldSelector": ALIVE, "limit": _PAGE}
            if place:
                query["continue"] = place
            body = self._api.get("/api/v1/pods", query=query, timeout_s=_TIMEOUT_S)
            page = msgspec.json.decode(body, type=PodList)
            yield from page.items or ()
            place = page.metadata.next_page
            if not place:
                return

    def _judged(self, pod: dict[str, Any]) -> Decision | None:
        """The decision on a pod; None for one that ends."""
        if pod["metadata"].get("deletionTimestamp"):
            return None
        namespace, cluster = _place(pod)
        return self._decide(
            pod,
            namespace=self._known.known_namespace(namespace),
            cluster=self._known.known_cluster(namespace, cluster),
            settings=self._settings,
        )

    def _tell(self, clusters: Mapping[tuple[str, str], int]) -> None:
        """An Event on each RayCluster, again only when Kubernetes is about to forget it."""
        now_s = self._clock()
        told: dict[tuple[str, str, str], float] = {}
        for (namespace, name), pods in clusters.items():
            cluster = self._known.known_cluster(namespace, name)
            if cluster is None:
                continue
            key = (namespace, name, cluster.uid)
            told_s = self._told.get(key)
            if told_s is None or now_s - told_s >= _AGAIN_S:
                self._record(cluster, Report.COLLECTOR_MISSING.value, _message(pods), "Warning")
                told_s = now_s
            told[key] = told_s
        self._told = told


def _is_missing(decision: Decision) -> bool:
    return decision.inject and decision.reason is not Reason.ALREADY_INJECTED


def _place(pod: Mapping[str, Any]) -> tuple[str, str]:
    meta = pod["metadata"]
    return str(meta["namespace"]), str(meta["labels"]["ray.io/cluster"])


def _message(pods: int) -> str:
    what = "1 pod runs" if pods == 1 else f"{pods} pods run"
    return (
        f"{what} without a collector, so no history is kept: made before the namespace or "
        "the cluster was opted in, or while the webhook was away. Delete the pods (KubeRay makes "
        "new ones) or make the cluster anew."
    )
