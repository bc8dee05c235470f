"""What is read of the API server's JSON. All other fields are skipped without being built.

https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

from __future__ import annotations

from typing import Any

import msgspec

_VARIANT = "application/json;as={};g=meta.k8s.io;v=v1"
METADATA = _VARIANT.format("PartialObjectMetadata")
METADATA_LIST = _VARIANT.format("PartialObjectMetadataList")
TABLE = _VARIANT.format("Table")
"""What `kubectl get` prints: a hundredth of the bytes of the objects."""


class _Read(msgspec.Struct, frozen=True, rename="camel"):
    """Base: Kubernetes' camel case, unknown fields skipped."""


class OwnerReference(_Read, frozen=True):
    """Who keeps an object alive."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class ObjectMeta(_Read, frozen=True):
    """The metadata of one object, without its managedFields."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class PartialObject(_Read, frozen=True):
    """PartialObjectMetadata; of a full object, the metadata."""

    metadata: ObjectMeta = ObjectMeta()


class ListMeta(_Read, frozen=True):
    """The state of a list, and where its next page is."""

    resource_version: str = ""
    next_page: str = msgspec.field(name="continue", default="")


class PartialList(_Read, frozen=True):
    """PartialObjectMetadataList."""

    metadata: ListMeta = ListMeta()
    items: tuple[PartialObject, ...] | None = None


class PodList(_Read, frozen=True):
    """One page of pods, as plain JSON."""

    metadata: ListMeta = ListMeta()
    items: list[dict[str, Any]] | None = None


class WatchEvent(_Read, frozen=True):
    """One line of a watch; the object is a Status when the type is ERROR."""

    type: str
    object: msgspec.Raw


class Status(_Read, frozen=True):
    """Kubernetes' error."""

    reason: str = ""
    message: str = ""
    code: int = 0


class ServerVersion(_Read, frozen=True):
    """The answer of /version."""

    git_version: str = ""


class Column(_Read, frozen=True):
    """A heading of a Table."""

    name: str = ""


class Row(_Read, frozen=True):
    """A row of a Table."""

    cells: tuple[Any, ...] = ()


class Table(_Read, frozen=True):
    """A list as `kubectl get` prints it."""

    metadata: ListMeta = ListMeta()
    column_definitions: tuple[Column, ...] = ()
    rows: tuple[Row, ...] | None = None


class EventSeries(_Read, frozen=True):
    """How often an Event happened."""

    count: int = 1


class StoredEvent(_Read, frozen=True):
    """What is there of an Event already."""

    metadata: ObjectMeta = ObjectMeta()
    series: EventSeries | None = None
