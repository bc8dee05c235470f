"""Namespaces: their labels decide, so all of them are kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from urllib.parse import quote

from webhook.facts import NamespaceFacts
from webhook.kube.clusters import kept
from webhook.kube.wire import ObjectMeta, PartialObject

RESOURCE = "namespaces"
PATH = "/api/v1/namespaces"


def path_of(name: str) -> str:
    """Where one namespace is."""
    return f"{PATH}/{quote(name, safe='')}"


class NamespaceCopy:
    """Namespaces by name, with all labels and the annotations that matter."""

    def __init__(self, keeps: Callable[[str], bool]) -> None:
        """`keeps` says whether an annotation is of use."""
        self._keeps = keeps
        self._facts: dict[str, NamespaceFacts] = {}

    def __len__(self) -> int:
        return len(self._facts)

    def get(self, name: str) -> NamespaceFacts | None:
        """What is known of it; None says nothing about whether there is one."""
        return self._facts.get(name)

    def replace(self, objects: Iterable[PartialObject]) -> None:
        """Take these for all there are. Readers see the old copy until the new one is whole."""
        self._facts = {found.metadata.name: self.facts(found.metadata) for found in objects}

    def put(self, changed: PartialObject) -> None:
        """Add or change one."""
        self._facts[changed.metadata.name] = self.facts(changed.metadata)

    def remove(self, gone: PartialObject) -> None:
        """Forget one."""
        self._facts.pop(gone.metadata.name, None)

    def facts(self, meta: ObjectMeta) -> NamespaceFacts:
        """What the decision needs of a namespace's metadata."""
        labels = {sys.intern(key): value for key, value in (meta.labels or {}).items()}
        return NamespaceFacts(
            name=meta.name, labels=labels, annotations=kept(meta.annotations, self._keeps)
        )
