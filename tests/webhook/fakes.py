"""A cluster in memory: what the webhook asks and tells."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tests.webhook.review_kit import CLUSTER, CLUSTER_UID, NAMESPACE
from webhook.facts import ClusterFacts, LookupFailedError, NamespaceFacts, Needed


def the_cluster(**annotations: str) -> ClusterFacts:
    """The RayCluster that the reviews' pods belong to."""
    return ClusterFacts(
        namespace=NAMESPACE,
        name=CLUSTER,
        uid=CLUSTER_UID,
        annotations={name.replace("__", "/"): value for name, value in annotations.items()},
    )


@dataclass
class FakeLookups:
    """Answers from memory; `fails` and `slow_s` make it fail or be slow."""

    clusters: list[ClusterFacts] = field(default_factory=lambda: [the_cluster()])
    namespaces: dict[str, NamespaceFacts] = field(default_factory=dict)
    absent: set[tuple[Needed, str, str]] = field(default_factory=set)
    native: bool = True
    fails: bool = False
    namespaces_fail: bool = False
    slow_s: float = 0.0
    asked: list[str] = field(default_factory=list)

    def cluster(self, *, namespace: str, name: str, uid: str) -> ClusterFacts | None:
        self._ask(f"cluster {namespace}/{name}")
        for cluster in self.clusters:
            if (cluster.namespace, cluster.name) == (namespace, name) and uid in ("", cluster.uid):
                return cluster
        return None

    def namespace(self, name: str) -> NamespaceFacts | None:
        if self.namespaces_fail:
            raise LookupFailedError("namespaces are not known")
        return self.namespaces.get(name)

    def exists(self, needed: Needed, *, namespace: str, name: str) -> bool:
        self._ask(f"{needed.value} {namespace}/{name}")
        return (needed, namespace, name) not in self.absent

    def native_sidecars(self) -> bool:
        self._ask("native_sidecars")
        return self.native

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.slow_s:
            time.sleep(self.slow_s)
        if self.fails:
            raise LookupFailedError("the API server does not answer")


@dataclass
class FakeAccounts:
    """Remembers what was to be made."""

    made: list[tuple[str, str, tuple[str, ...], bool]] = field(default_factory=list)
    fails: bool = False

    def ensure(
        self, *, name: str, cluster: ClusterFacts, pull_secrets: tuple[str, ...], autoscaler: bool
    ) -> None:
        if self.fails:
            raise LookupFailedError("serviceaccounts is forbidden")
        self.made.append((name, cluster.name, pull_secrets, autoscaler))


@dataclass
class FakeEvents:
    """Remembers what was told."""

    told: list[tuple[str, str, str]] = field(default_factory=list)
    fails: bool = False

    def record(self, cluster: ClusterFacts, reason: str, message: str, kind: str) -> None:
        del message
        if self.fails:
            raise RuntimeError("no events today")
        self.told.append((cluster.name, reason, kind))
