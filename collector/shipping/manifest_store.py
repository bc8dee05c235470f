"""Stores the node's manifest when the book has changed, and does what may be done only then."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from collector.shipping.jobs import Jobs
from collector.shipping.manifest import ManifestBook
from collector.shipping.parts import ShippingParts
from collector.shipping.uploads import AGAIN_AFTER_S, Urgency, failure
from collector.tails import LogTails
from storage.backend import ObjectInfo
from storage.layout import hot_segment_key, manifest_key
from storage.wire import encode_manifest

_HEARTBEAT_S = 30.0
_COST_SHARE = 10
"""A long manifest is not stored again and again: at most this part of the time goes there."""

log = logging.getLogger(__name__)


class ManifestStore:
    """The manifest of one node. One thread uses it.

    Args:
        parts: which node.
        book: what the manifest tells.
        tails: states of the logs, for the local state.
        jobs: takes the uploads.

    """

    def __init__(
        self, parts: ShippingParts, *, book: ManifestBook, tails: LogTails, jobs: Jobs
    ) -> None:
        self._parts, self._book, self._tails, self._jobs = parts, book, tails, jobs
        self._busy = self._dirty = False
        self._stored_s = float("-inf")
        self._pause_s = 0.0
        self._after: list[Callable[[], None]] = []
        self._deleting: set[int] = set()

    @property
    def busy(self) -> bool:
        """A manifest is on its way."""
        return self._busy

    @property
    def current(self) -> bool:
        """Storage has a manifest that tells all that the book has."""
        return not (self._busy or self._dirty)

    def touch(self) -> None:
        """The book changed: a new manifest is needed."""
        self._dirty = True

    def after(self, act: Callable[[], None]) -> None:
        """Do this when a manifest that tells of the book as it is now has been stored."""
        self._after.append(act)

    def store_if_due(self) -> None:
        """Store it when the book changed; and now and then, so that readers see us alive."""
        since_s = self._parts.monotonic() - self._stored_s
        if (self._dirty and since_s >= self._pause_s) or since_s >= _HEARTBEAT_S:
            self.store()

    def store(self, *, ended: bool = False, unshipped_events: int = 0) -> None:
        """Store it, unless one is on its way, which a later call follows up.

        Args:
            ended: nothing more will come.
            unshipped_events: told as dropped, until they are shipped after all.

        """
        if self._busy:
            return
        self._busy, self._dirty = True, False
        self._stored_s = self._parts.monotonic()
        self._save()
        data = encode_manifest(self._book.manifest(ended=ended, unshipped_events=unshipped_events))
        key = manifest_key(self._parts.ref, self._parts.session.node_id)
        after, self._after = self._after, []
        unused = self._book.unused_segments()

        def work() -> ObjectInfo:
            return self._jobs.backend.put(key, data)

        done = partial(self._stored, after, unused)
        self._jobs.submit("manifest", work, done, urgency=Urgency.MANIFEST)

    def _save(self) -> None:
        """Write the local state. On a full disk it stays old: after a kill more is done again."""
        try:
            self._book.save(self._tails.states(), self._parts.counted())
        except OSError as error:
            log.warning("local state not written", extra={"error": str(error)})

    def _stored(
        self, after: list[Callable[[], None]], unused: list[int], future: Future[ObjectInfo]
    ) -> None:
        self._busy = False
        took_s = self._parts.monotonic() - self._stored_s
        self._pause_s = min(took_s * _COST_SHARE, self._parts.settings.hot_interval_s)
        if failure(future) is not None:
            self._after[:0] = after
            self._dirty = True
            self._pause_s = AGAIN_AFTER_S
            return
        for act in after:
            try:
                act()
            except OSError as error:  # a file that cannot be deleted must not stop the rest
                log.warning("journal not told", extra={"error": str(error)})
        self._delete(unused)

    def _delete(self, unused: list[int]) -> None:
        for seq in unused:
            if seq in self._deleting:
                continue
            self._deleting.add(seq)
            key = hot_segment_key(self._parts.ref, self._parts.session.node_id, seq)
            work = partial(self._jobs.backend.delete, key)
            self._jobs.submit("delete", work, partial(self._deleted, seq), urgency=Urgency.CLEANING)

    def _deleted(self, seq: int, future: Future[None]) -> None:
        self._deleting.discard(seq)
        if failure(future) is None:
            self._book.state.segments.pop(seq, None)
