"""RayClusters: the watch's copy, and one live look when it has none yet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote

from webhook.facts import ClusterFacts
from webhook.kube.wire import ObjectMeta, PartialObject

RESOURCE = "rayclusters"
PATH = "/apis/ray.io/v1/rayclusters"

_ORIGIN_KIND = "ray.io/originated-from-crd"
_ORIGIN_NAME = "ray.io/originated-from-cr-name"


def path_of(namespace: str, name: str) -> str:
    """Where one RayCluster is."""
    return (
        f"/apis/ray.io/v1/namespaces/{quote(namespace, safe='')}/rayclusters/{quote(name, safe='')}"
    )


class ClusterCopy:
    """RayClusters by namespace and name, with the annotations that matter.

    The others are dropped: `kubectl apply` keeps the whole object in one of them.
    """

    def __init__(self, keeps: Callable[[str], bool]) -> None:
        """`keeps` says whether an annotation is of use."""
        self._keeps = keeps
        self._facts: dict[tuple[str, str], ClusterFacts] = {}

    def __len__(self) -> int:
        return len(self._facts)

    def get(self, namespace: str, name: str) -> ClusterFacts | None:
        """What is known of it; None says nothing about whether there is one."""
        return self._facts.get((namespace, name))

    def replace(self, objects: Iterable[PartialObject]) -> None:
        """Take these for all there are. Readers see the old copy until the new one is whole."""
        facts = (self.facts(found.metadata) for found in objects)
        self._facts = {(fact.namespace, fact.name): fact for fact in facts}

    def put(self, changed: PartialObject) -> None:
        """Add or change one."""
        fact = self.facts(changed.metadata)
        self._facts[fact.namespace, fact.name] = fact

    def remove(self, gone: PartialObject) -> None:
        """Forget one."""
        self._facts.pop((gone.metadata.namespace, gone.metadata.name), None)

    def facts(self, meta: ObjectMeta) -> ClusterFacts:
        """What the decision needs of a RayCluster's metadata."""
        kind, name = _origin(meta)
        return ClusterFacts(
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            uid=meta.uid,
            annotations=kept(meta.annotations, self._keeps),
            owner_kind=sys.intern(kind),
            owner_name=name,
        )


def kept(annotations: Mapping[str, str] | None, keeps: Callable[[str], bool]) -> Mapping[str, str]:
    """The annotations of use; their names are shared by all objects."""
    return {sys.intern(key): value for key, value in (annotations or {}).items() if keeps(key)}


def of_use(*names: str) -> Callable[[str], bool]:
    """Says whether an annotation has one of these names, or one of their domains."""
    exact = frozenset(names)
    domains = frozenset(name.partition("/")[0] for name in names if "/" in name)
    return lambda key: key in exact or key.partition("/")[0] in domains


def _origin(meta: ObjectMeta) -> tuple[str, str]:
    """The RayJob or RayService that made it: KubeRay's labels, else its owner."""
    labels = meta.labels or {}
    kind, name = labels.get(_ORIGIN_KIND, ""), labels.get(_ORIGIN_NAME, "")
    if not kind or not name:
        for owner in meta.owner_references or ():
            if owner.kind in ("RayJob", "RayService"):
                kind, name = owner.kind, owner.name
    return (kind.lower(), name) if kind in ("RayJob", "RayService") and name else ("", "")
