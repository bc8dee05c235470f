"""The `Cluster` of a real API server."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from certs.api import JSON_PATCH, MERGE_PATCH, Api, NotFoundError
from certs.cluster import ClusterError, Failure, Lease, Secret
from certs.state import Configuration

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_WATCH_S = 300
"""Life of one watch; the API server's own limit is longer."""


@dataclass(frozen=True, slots=True)
class Names:
    """Which objects are meant."""

    namespace: str
    secret: str
    lease: str
    service: str
    hosts: frozenset[str]
    """Host names that our leaf is valid for: entries that call us by URL."""


class KubeCluster:
    """Reads and patches our objects only."""

    def __init__(self, api: Api, names: Names) -> None:
        self._api = api
        self._names = names
        core = f"/api/v1/namespaces/{names.namespace}"
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{names.namespace}/leases"
        self._secrets, self._secret = f"{core}/secrets", f"{core}/secrets/{names.secret}"
        self._leases, self._lease = leases, f"{leases}/{names.lease}"

    def secret(self) -> Secret | None:
        """See `Cluster`."""
        found = self._found(self._secret)
        if found is None:
            return None
        return Secret(data=_decoded(found.get("data") or {}), version=_version(found))

    def write_secret(self, data: Mapping[str, bytes], *, version: str) -> None:
        """See `Cluster`."""
        body = {"metadata": {"resourceVersion": version}, "data": _encoded(data)}
        self._api.patch(self._secret, body, MERGE_PATCH)

    def create_secret(self, data: Mapping[str, bytes]) -> None:
        """See `Cluster`."""
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self._names.secret},
            "type": "Opaque",
            "data": _encoded(data),
        }
        self._api.post(self._secrets, body)

    def configuration(self, name: str) -> Configuration:
        """See `Cluster`."""
        found = self._found(f"{_CONFIGURATIONS}/{name}")
        if found is None:
            return Configuration(name, bundles=())
        bundles = tuple(_bundle(entry) for _, entry in self._entries(found))
        return Configuration(name, bundles=bundles, version=_version(found))

    def publish(self, name: str, bundle: bytes, *, version: str) -> None:
        """See `Cluster`. The places of entries are those of that version."""
        found = self._found(f"{_CONFIGURATIONS}/{name}")
        if found is None or _version(found) != version:
            raise ClusterError(Failure.CONFLICT, f"{name} has changed meanwhile")
        wanted = b64encode(bundle).decode()
        # A patch with another resourceVersion than the object's is refused as a conflict.
        patch = [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}]
        for place, _ in self._entries(found):
            path = f"/webhooks/{place}/clientConfig/caBundle"
            patch.append({"op": "add", "path": path, "value": wanted})
        self._api.patch(f"{_CONFIGURATIONS}/{name}", patch, JSON_PATCH)

    def changes(self, name: str) -> Iterator[bytes]:
        """Something for each change of a configuration, until the watch ends.

        Also for its state at the beginning. Raises `ClusterError`.
        """
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={name}",  # what RBAC by resourceNames allows
            "timeoutSeconds": str(_WATCH_S),
        }
        return self._api.lines(_CONFIGURATIONS, query, idle_s=_WATCH_S + 10)

    def lease(self) -> Lease | None:
        """See `Cluster`."""
        found = self._found(self._lease)
        if found is None:
            return None
        spec = found.get("spec") or {}
        return Lease(
            holder=spec.get("holderIdentity") or "",
            duration_s=spec.get("leaseDurationSeconds") or 0,
            acquired_at=_time(spec.get("acquireTime")),
            renewed_at=_time(spec.get("renewTime")),
            transitions=spec.get("leaseTransitions") or 0,
            version=_version(found),
        )

    def write_lease(self, lease: Lease) -> None:
        """See `Cluster`."""
        spec = {
            "holderIdentity": lease.holder,
            "leaseDurationSeconds": lease.duration_s,
            "acquireTime": _micro_time(lease.acquired_at),
            "renewTime": _micro_time(lease.renewed_at),
            "leaseTransitions": lease.transitions,
        }
        if lease.version:
            body: dict[str, Any] = {"metadata": {"resourceVersion": lease.version}, "spec": spec}
            self._api.patch(self._lease, body, MERGE_PATCH)
            return
        self._api.post(
            self._leases,
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._names.lease},
                "spec": spec,
            },
        )

    def _found(self, path: str) -> dict[str, Any] | None:
        try:
            found = self._api.get(path)
        except NotFoundError:
            return None
        if not isinstance(found, dict):
            raise ClusterError(Failure.REFUSED, f"{path}: not an object")
        return found

    def _entries(self, configuration: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        for place, entry in enumerate(configuration.get("webhooks") or ()):
            if self._calls_us(entry.get("clientConfig") or {}):
                yield place, entry

    def _calls_us(self, client: Mapping[str, Any]) -> bool:
        service = client.get("service")
        if service:
            ours = (self._names.namespace, self._names.service)
            return (service.get("namespace"), service.get("name")) == ours
        return urlsplit(client.get("url") or "").hostname in self._names.hosts


def _bundle(entry: Mapping[str, Any]) -> bytes:
    return _bytes((entry.get("clientConfig") or {}).get("caBundle") or "")


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text)
    except (binascii.Error, ValueError):
        return b""


def _encoded(data: Mapping[str, bytes]) -> dict[str, str]:
    return {name: b64encode(value).decode() for name, value in data.items()}


def _decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    return {name: _bytes(value) for name, value in data.items()}


def _version(found: Mapping[str, Any]) -> str:
    return str(found["metadata"]["resourceVersion"])


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def _micro_time(time: datetime | None) -> str | None:
    """`MicroTime` of Kubernetes: always six digits."""
    if time is None:
        return None
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
