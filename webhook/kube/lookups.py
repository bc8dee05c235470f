"""The real `Lookups`: the watches' copies first, one live look on a miss.

Pods come milliseconds after their cluster, often before the watch has it. What a live look
found is kept for seconds, until the watch has it too; that there was nothing is never kept.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from webhook.facts import ClusterFacts, LookupFailedError, NamespaceFacts, Needed
from webhook.kube import clusters, namespaces
from webhook.kube.client import Api, Bounds, KubeError, RefusedError
from webhook.kube.clusters import ClusterCopy
from webhook.kube.flights import Flights
from webhook.kube.metrics import KubeMetrics, Source
from webhook.kube.namespaces import NamespaceCopy
from webhook.kube.versions import SidecarSupport
from webhook.kube.wire import METADATA, ObjectMeta, PartialObject

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""An RFC 1123 subdomain. Owner references may hold anything, so `..` too."""
_RECENT_S = 10.0
_MOST_RECENT = 1024


class KubeLookups:
    """Answers from the copies of the watches, or from one bounded call."""

    def __init__(
        self,
        *,
        api: Api,
        cluster_copy: ClusterCopy,
        namespace_copy: NamespaceCopy,
        sidecars: SidecarSupport,
        metrics: KubeMetrics,
        bounds: Bounds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`bounds` hold for each live look."""
        self._api = api
        self._clusters = cluster_copy
        self._namespaces = namespace_copy
        self._sidecars = sidecars
        self._metrics = metrics
        self._bounds = bounds
        self._recent_clusters: _Recent[ClusterFacts] = _Recent(clock)
        self._recent_namespaces: _Recent[NamespaceFacts] = _Recent(clock)
        self._recent_needed: _Recent[bool] = _Recent(clock)
        self._flights: Flights[str, ObjectMeta | None] = Flights()

    def cluster(self, *, namespace: str, name: str, uid: str) -> ClusterFacts | None:
        """The RayCluster of this uid, or None. Raises `LookupFailedError`."""

        def is_meant(found: ClusterFacts | None) -> bool:
            return found is not None and (not uid or found.uid == uid)

        path = clusters.path_of(namespace, name)
        known = self._clusters.get(namespace, name)
        source = Source.WATCH
        if not is_meant(known):
            known, source = self._recent_clusters.get(path), Source.RECENT
        if is_meant(known):
            self._metrics.looked_up(clusters.RESOURCE, source)
            return known
        if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            return None
        meta = self._live(clusters.RESOURCE, path, is_meant=lambda meta: meta.uid == uid or not uid)
        found = None if meta is None else self._clusters.facts(meta)
        if found is None or not is_meant(found):
            return None
        self._recent_clusters.put(path, found)
        return found

    def namespace(self, name: str) -> NamespaceFacts | None:
        """The namespace, or None. Raises `LookupFailedError`."""
        path = namespaces.path_of(name)
        known, source = self._namespaces.get(name), Source.WATCH
        if known is None:
            known, source = self._recent_namespaces.get(path), Source.RECENT
        if known is not None:
            self._metrics.looked_up(namespaces.RESOURCE, source)
            return known
        if not _NAME.fullmatch(name):
            return None
        meta = self._live(namespaces.RESOURCE, path, is_meant=lambda _: True)
        if meta is None:
            return None
        found = self._namespaces.facts(meta)
        self._recent_namespaces.put(path, found)
        return found

    def exists(self, needed: Needed, *, namespace: str, name: str) -> bool:
        """Whether it is there, and not about to go. Raises `LookupFailedError`.

        One object of few namespaces, and there it stays: it is asked for, not watched.
        """
        if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            return False
        path = f"/api/v1/namespaces/{namespace}/{needed.value}/{name}"
        if self._recent_needed.get(path):
            self._metrics.looked_up(needed.value, Source.RECENT)
            return True
        meta = self._live(needed.value, path, is_meant=lambda _: True)
        is_there = meta is not None and meta.deletion_timestamp is None
        if is_there:
            self._recent_needed.put(path, True)
        return is_there

    def native_sidecars(self) -> bool:
        """Whether server and every schedulable node can run native sidecars; False in doubt."""
        return self._sidecars.is_native()

    def known_cluster(self, namespace: str, name: str) -> ClusterFacts | None:
        """The watch's copy only: for those who can wait."""
        return self._clusters.get(namespace, name)

    def known_namespace(self, name: str) -> NamespaceFacts | None:
        """The watch's copy only: for those who can wait."""
        return self._namespaces.get(name)

    def _live(
        self, resource: str, path: str, *, is_meant: Callable[[ObjectMeta], bool]
    ) -> ObjectMeta | None:
        """Ask, together with all who ask the same; None when there is none."""
        limit_s = self._bounds.limit_s()
        began_s = time.monotonic()
        try:
            meta, is_shared = self._flights.ask(
                path, lambda: self._get(path, limit_s), wait_s=limit_s
            )
            if is_shared and (meta is None or not is_meant(meta)):
                # Theirs began before ours was made, perhaps: nobody else's `no` counts.
                left_s = max(0.05, limit_s - (time.monotonic() - began_s))
                meta = self._get(path, left_s)
        except (KubeError, TimeoutError, msgspec.MsgspecError) as error:
            self._metrics.looked_up(resource, Source.FAILED)
            what = str(error) or f"no answer within {limit_s:.1f} s"
            raise LookupFailedError(
                f"{path.rpartition('/')[2]} was not found out: {what}"
            ) from error
        finally:
            self._metrics.asked_live(resource, time.monotonic() - began_s)
        self._metrics.looked_up(resource, Source.LIVE)
        return meta

    def _get(self, path: str, limit_s: float) -> ObjectMeta | None:
        try:
            body = self._api.get(path, accept=METADATA, timeout_s=limit_s)
        except RefusedError as error:
            if error.status == 404:
                return None
            raise
        return msgspec.json.decode(body, type=PartialObject).metadata


class _Recent(Generic[T]):
    """What live looks found in the last seconds; bounded."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[float, T]] = OrderedDict()

    def get(self, key: str) -> T | None:
        with self._lock:
            entry = self._found.get(key)
        return entry[1] if entry is not None and self._clock() - entry[0] < _RECENT_S else None

    def put(self, key: str, value: T) -> None:
        with self._lock:
            self._found.pop(key, None)
            self._found[key] = (self._clock(), value)
            while len(self._found) > _MOST_RECENT:
                self._found.popitem(last=False)
