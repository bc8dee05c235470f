"""The metrics of `certs run`, in a registry of their own: `rayhistory_certs_...`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from certs.cluster import Failure
from certs.kept import Kept, Reason

PREFIX = "rayhistory_certs"
KINDS = ("authority", "leaf")


class CertsMetrics:
    """Shows when certificates end, and counts what is done about it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._leaf_end = self._gauge(
            "leaf_not_after_timestamp_seconds",
            "When the leaf ends, as Unix time; 0: none.",
        )
        self._authority_end = self._gauge(
            "ca_not_after_timestamp_seconds",
            "When the CA ends that signed the leaf, as Unix time; 0: none.",
        )
        self._authorities = self._gauge(
            "ca_trusted", "CAs in the bundle: 1, or 2 while one replaces the other."
        )
        self._leader = self._gauge("leader", "1 while this replica makes and publishes.")
        self._checked = self._gauge(
            "last_check_timestamp_seconds", "When all was last looked at without an error."
        )
        self._offset = self._gauge(
            "clock_offset_seconds", "Seconds by which the API server's clock is ahead of ours."
        )
        self._rotations = self._counter(
            "rotations",
            "New certificates seen, by kind and why; the same on every replica.",
            ("kind", "reason"),
        )
        self._repairs = self._counter(
            "bundle_repairs",
            "Configurations from which a published CA was gone.",
            ("configuration",),
        )
        self._errors = self._counter("errors", "Calls that failed, by why.", ("reason",))
        for failure in Failure:
            self._errors.labels(failure.value)
        for kind in KINDS:
            for reason in Reason:
                self._rotations.labels(kind, reason.value)

    def kept(self, kept: Kept) -> None:
        """Show what is kept."""
        leaf = kept.leaf
        signer = kept.authority(leaf.authority) if leaf is not None else None
        self._leaf_end.set(leaf.not_after.timestamp() if leaf is not None else 0)
        self._authority_end.set(signer.not_after.timestamp() if signer is not None else 0)
        self._authorities.set(len(kept.authorities))

    def rotated(self, kind: str, reason: Reason) -> None:
        """Count a new certificate; `kind` is one of `KINDS`."""
        self._rotations.labels(kind, reason.value).inc()

    def repaired(self, configuration: str) -> None:
        """Count a repair."""
        self._repairs.labels(configuration).inc()

    def failed(self, failure: Failure) -> None:
        """Count a failed call."""
        self._errors.labels(failure.value).inc()

    def leading(self, is_leading: bool) -> None:
        """Show whether this replica acts."""
        self._leader.set(float(is_leading))

    def checked(self, *, at_s: float, offset_s: float) -> None:
        """All was looked at; times in Unix seconds."""
        self._checked.set(at_s)
        self._offset.set(offset_s)

    def page(self) -> tuple[bytes, str]:
        """The page and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", meaning, registry=self.registry)

    def _counter(self, name: str, meaning: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"{PREFIX}_{name}", meaning, labels, registry=self.registry)
