"""What the parts of shipping need of the whole that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Protocol, TypeVar

from collector.ray_session import RaySession
from collector.shipping.manifest import ManifestBook
from collector.shipping.uploads import Shipper, Urgency
from collector.tails import LogTails
from storage.layout import SessionRef

Result = TypeVar("Result")


class ShippingOwner(Protocol):
    """`collector.shipping.node_shipping.Shipping`, as its parts see it."""

    ref: SessionRef
    session: RaySession
    shipper: Shipper
    tails: LogTails
    book: ManifestBook

    def submit(
        self,
        kind: str,
        work: Callable[[], Result],
        done: Callable[[Future[Result]], None],
        *,
        urgency: Urgency,
        size_bytes: int = 0,
    ) -> None:
        """Queue an upload whose outcome `done` learns later, in the shipping's own thread."""
        ...

    def guard(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The same chunks, until the deadline of the shutdown ends them with `DeadlineError`."""
        ...

    def touch(self) -> None:
        """The book changed: a new manifest is needed."""
        ...

    def after_manifest(self, act: Callable[[], None]) -> None:
        """Do this when a manifest that tells of the book as it is now has been stored."""
        ...
