"""A cluster in memory, with versions as Kubernetes has them, and faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from certs.cluster import ClusterError, Failure, Lease, Secret
from certs.state import Configuration


@dataclass
class FakeCluster:
    """A `Cluster`. Not for threads."""

    secret_data: dict[str, bytes] | None = field(default_factory=dict)
    configurations: dict[str, tuple[bytes, ...]] = field(default_factory=lambda: {"hooks": (b"",)})
    kept_lease: Lease | None = None
    faults: dict[str, Failure] = field(default_factory=dict)
    """Calls that fail, by the method's name."""
    before: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What others do just before a call, once."""
    calls: list[str] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)

    def secret(self) -> Secret | None:
        self._called("secret")
        if self.secret_data is None:
            return None
        return Secret(data=dict(self.secret_data), version=self._version("secret"))

    def write_secret(self, data: Mapping[str, bytes], *, version: str) -> None:
        self._called("write_secret")
        self._check("secret", version)
        assert self.secret_data is not None
        self.secret_data.update(data)
        self.touch("secret")

    def create_secret(self, data: Mapping[str, bytes]) -> None:
        self._called("create_secret")
        if self.secret_data is not None:
            raise ClusterError(Failure.CONFLICT, "exists")
        self.secret_data = dict(data)
        self.touch("secret")

    def configuration(self, name: str) -> Configuration:
        self._called("configuration")
        return Configuration(name, self.configurations.get(name, ()), self._version(name))

    def publish(self, name: str, bundle: bytes, *, version: str) -> None:
        self._called("publish")
        self._check(name, version)
        self.configurations[name] = tuple(bundle for _ in self.configurations[name])
        self.touch(name)

    def lease(self) -> Lease | None:
        self._called("lease")
        if self.kept_lease is None:
            return None
        return replace(self.kept_lease, version=self._version("lease"))

    def write_lease(self, lease: Lease) -> None:
        self._called("write_lease")
        if self.kept_lease is None and lease.version:
            raise ClusterError(Failure.REFUSED, "gone")
        if self.kept_lease is not None:
            self._check("lease", lease.version)
        self.kept_lease = lease
        self.touch("lease")

    def apply(self, name: str, *, entries: int = 1) -> None:
        """A configuration is applied anew, without a bundle."""
        self.configurations[name] = (b"",) * entries
        self.touch(name)

    def touch(self, name: str) -> None:
        """Something was written."""
        self.versions[name] = self.versions.get(name, 0) + 1

    def _version(self, name: str) -> str:
        return str(self.versions.get(name, 0) + 1)

    def _check(self, name: str, version: str) -> None:
        if version != self._version(name):
            raise ClusterError(Failure.CONFLICT, f"{name} has changed")

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if action := self.before.pop(name, None):
            action()
        if failure := self.faults.get(name):
            raise ClusterError(failure, f"{name}: {failure.value}")
