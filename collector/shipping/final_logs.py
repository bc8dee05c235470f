"""Puts whole logs as plain objects in KubeRay's layout, and knows when one is outdated."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future
from enum import Enum
from functools import partial

from collector.shipping.final_objects import frame_chunks, put_verified
from collector.shipping.node_state import NodeState
from collector.shipping.uploads import Urgency, failure
from collector.tails import TailedLog
from collector.tails.names import is_settled
from storage.backend import InvalidKeyError
from storage.layout import log_key

TRIES_PER_LOG = 3
"""A log that is being written while it is put is tried again this often in one shutdown."""


class LogDrop(Enum):
    """Why a log has no plain object; a key of the manifest's `log_dropped` and of the metric."""

    UNSTORABLE_NAME = "unstorable_name"
    """The name cannot be part of an object key. The content is in live segments and stays."""


_log = logging.getLogger(__name__)


class FinalLogs:
    """Final objects of one node's logs. One thread uses it."""

    def __init__(self, node: NodeState) -> None:
        self._node = node
        self._busy: set[str] = set()
        self._tries: dict[str, int] = {}
        self._taken_ns: dict[str, int] = {}
        self._unstorable: set[str] = set()

    def reopen(self) -> None:
        """Follow logs from their start again whose plain object is outdated.

        After an ordinary end of the collector every log is one object. If Ray goes on and
        the log grows or is rotated, it is read again: readers use either the object or the
        frames, and the object's name may soon be another log's.
        """
        for log in self._node.tails.logs():
            stored = self._node.book.state.logs.get(log.incarnation)
            if stored is None or stored.key is None or log.local is None or stored.frames:
                continue
            grown = log.size_bytes > stored.key_bytes
            if log.offset and (grown or stored.key != self._key(log)):
                self._node.tails.reset(log.incarnation)

    def ship_rotated_out(self) -> None:
        """Put a log that Ray deleted, one at a time: its name will not change any more."""
        if self._busy:
            return
        for log in self._node.tails.logs():
            if log.gone and is_settled(log.path) and self._wanted(log):
                self._put(log)
                return

    def begin(self) -> None:
        """A shutdown begins: logs that failed before are tried again."""
        self._tries.clear()

    def ship_all(self) -> None:
        """Queue every log that has no current plain object; call again until nothing is on its way.

        Those whose old object has a name that is another log's now go first and alone, as
        their bytes may have to be copied before that name is used again.
        """
        wanted = [log for log in self._node.tails.logs() if self._wanted(log)]
        outdated = [log for log in wanted if self._node.book.log(log.incarnation).key]
        if outdated:
            if not self._busy:
                self._put(min(outdated, key=lambda log: (not log.gone, log.path)))
            return
        for log in wanted:
            if log.incarnation not in self._busy:
                self._put(log)

    @property
    def missing(self) -> list[TailedLog]:
        """Logs that have no current plain object, though they could have one."""
        return [log for log in self._node.tails.logs() if self._wanted(log, again=True)]

    def _wanted(self, log: TailedLog, *, again: bool = False) -> bool:
        if not again and self._tries.get(log.incarnation, 0) >= TRIES_PER_LOG:
            return False
        key = self._key(log)
        if key is None:
            return False
        stored = self._node.book.state.logs.get(log.incarnation)
        if log.gone:
            # Of an empty file there is nothing to read back, and nothing to miss.
            has_content = stored is not None and (stored.key or stored.frames)
            return bool(has_content) and stored is not None and stored.key != key
        if stored is None or stored.key != key or stored.key_bytes != log.size_bytes:
            return True
        return log.rewritten and self._taken_ns.get(log.incarnation) != log.modified_ns

    def _put(self, log: TailedLog) -> None:
        key = self._key(log)
        if key is None:
            return
        incarnation, size_bytes, jobs = log.incarnation, log.size_bytes, self._node.jobs
        self._tries[incarnation] = self._tries.get(incarnation, 0) + 1
        self._busy.add(incarnation)
        source = self._source(log)

        def work() -> int:
            return put_verified(jobs.backend, key, jobs.guard(source()))

        done = partial(self._stored, log, key, log.modified_ns)
        jobs.submit("log", work, done, urgency=Urgency.LOGS, size_bytes=size_bytes)

    def _source(self, log: TailedLog) -> partial[Iterator[bytes]]:
        node, stored = self._node, self._node.book.log(log.incarnation)
        backend = node.jobs.backend
        if not log.gone:
            return partial(node.tails.content, log.incarnation, 0, log.size_bytes)
        if stored.key is not None:
            return partial(backend.get, stored.key)
        frames = list(stored.frames)
        return partial(frame_chunks, backend, node.parts.ref, node.parts.session.node_id, frames)

    def _stored(self, log: TailedLog, key: str, modified_ns: int, future: Future[int]) -> None:
        self._busy.discard(log.incarnation)
        error = failure(future)
        if error is not None:
            _log.info("log not stored yet", extra={"path": log.path, "error": str(error)})
            return
        size_bytes = future.result()
        self._taken_ns[log.incarnation] = modified_ns
        self._node.book.log_stored(log.incarnation, key, size_bytes)
        if not log.gone:
            self._node.tails.stored(log.incarnation, size_bytes)
        self._node.manifests.touch()

    def _key(self, log: TailedLog) -> str | None:
        try:
            return log_key(self._node.parts.ref, self._node.parts.session.node_id, log.path)
        except InvalidKeyError as error:
            if log.incarnation not in self._unstorable:
                self._unstorable.add(log.incarnation)
                reason = LogDrop.UNSTORABLE_NAME.value
                self._node.book.state.log_dropped[reason] = len(self._unstorable)
                self._node.parts.metrics.logs_dropped.labels(reason).inc()
                _log.warning("log dropped", extra={"reason": reason, "error": str(error)})
            return None
