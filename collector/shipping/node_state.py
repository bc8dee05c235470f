"""What the parts of one node's shipping share."""

from __future__ import annotations

from dataclasses import dataclass

from collector.shipping.jobs import Jobs
from collector.shipping.manifest import ManifestBook
from collector.shipping.manifest_store import ManifestStore
from collector.shipping.parts import ShippingParts
from collector.tails import LogTails


@dataclass(frozen=True, slots=True)
class NodeState:
    """The node's logs, its book and manifest, and its uploads. One thread changes it."""

    parts: ShippingParts
    tails: LogTails
    book: ManifestBook
    manifests: ManifestStore
    jobs: Jobs
