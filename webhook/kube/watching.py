"""Keeps a local copy of one kind of object by list and watch, metadata only.

The protocol: list all, then follow the changes from the list's version; bookmarks move that
version on, so that a broken watch resumes where it was; 410 Gone means that the place is lost
and all is listed again.
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from webhook.kube.backoff import Backoff, jittered_s
from webhook.kube.client import Api, KubeError, Lines, RefusedError
from webhook.kube.metrics import KubeMetrics, WatchEnd
from webhook.kube.wire import (
    METADATA,
    METADATA_LIST,
    PartialList,
    PartialObject,
    Status,
    WatchEvent,
)

_log = logging.getLogger("webhook.kube.watching")

_PAGE = 250
"""Objects of one page: about 3 MB with their managedFields, which cannot be left out."""
_LIST_TIMEOUT_S = 30.0
_CONNECT_S = 10.0
_WATCH_S = 300
"""How long the server keeps a watch open; up to twice that, by chance."""
_IDLE_S = 120.0
"""Bookmarks come every minute: two missing mean a dead connection."""
_NOT_INSTALLED_S = 30.0
_SHORT_WATCH_S = 1.0
_FAILURES_BEFORE_LIST = 3


class Copy(Protocol):
    """The local copy. One thread writes, any thread reads."""

    def replace(self, objects: Iterable[PartialObject]) -> None:
        """Take these objects for all there are."""

    def put(self, changed: PartialObject) -> None:
        """Add or change one."""

    def remove(self, gone: PartialObject) -> None:
        """Forget one."""

    def __len__(self) -> int:
        """How many there are."""


class _GoneError(Exception):
    """The place in the history is lost."""


class Watch:
    """One thread that keeps one copy."""

    def __init__(
        self,
        resource: str,
        path: str,
        *,
        copy: Copy,
        api: Api,
        metrics: KubeMetrics,
        idle_s: float = _IDLE_S,
        not_installed_s: float | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.resource = resource
        self._path = path
        self._copy = copy
        self._api = api
        self._metrics = metrics
        self._idle_s = idle_s
        self._not_installed_s = not_installed_s or _NOT_INSTALLED_S
        self._backoff = backoff or Backoff()
        self._version = ""
        self._failures = 0
        self._problem = "has not been listed yet"
        self._synced = threading.Event()
        self._stopping = threading.Event()
        self._open: Lines | None = None
        self._heard_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"watch-{resource}", daemon=True)
        metrics.watch_state(
            resource,
            objects=lambda: len(copy),
            silence_s=lambda: time.monotonic() - self._heard_s,
        )

    def start(self) -> None:
        """Begin. Called after gunicorn's fork, since threads do not survive one."""
        self._thread.start()

    def stop(self) -> None:
        """End soon, also while waiting for a line."""
        self._stopping.set()
        if (lines := self._open) is not None:
            lines.stop()

    def join(self, timeout_s: float) -> None:
        """Wait for the end."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def synced(self) -> bool:
        """Whether the copy was complete once; it stays useful through an outage."""
        return self._synced.is_set()

    def wait_synced(self, timeout_s: float) -> bool:
        """Wait for it."""
        return self._synced.wait(timeout_s)

    def problem(self) -> str:
        """Why it is not synced; else empty."""
        return "" if self._synced.is_set() else f"{self.resource}: {self._problem}"

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                wait_s = self._step()
            except Exception as error:
                # Also a bug of ours must not end the copy for the life of the process.
                _log.exception("a watch failed", extra={"resource": self.resource})
                wait_s = self._failed(WatchEnd.BROKEN, str(error))
            self._stopping.wait(wait_s)

    def _step(self) -> float:
        """List if needed, then follow until the watch ends; returns how long to wait."""
        try:
            if not self._version:
                self._list()
            return self._follow()
        except _GoneError:
            self._version = ""
            self._metrics.watch_ended(self.resource, WatchEnd.EXPIRED)
            return self._backoff.next_s()
        except RefusedError as error:
            if error.status == 404:
                return self._not_installed()
            return self._failed(WatchEnd.REFUSED, str(error))
        except (KubeError, msgspec.MsgspecError) as error:
            if self._stopping.is_set():
                return 0.0
            return self._failed(WatchEnd.BROKEN, str(error))

    def _list(self) -> None:
        version = ""

        def pages() -> Iterator[PartialObject]:
            nonlocal version
            page = PartialList()
            while not version or page.metadata.next_page:
                page = self._page(page.metadata.next_page)
                version = page.metadata.resource_version
                yield from page.items or ()

        self._copy.replace(pages())
        self._version = version
        self._is_synced()

    def _page(self, place: str) -> PartialList:
        query = {"limit": str(_PAGE)}
        if place:
            query["continue"] = place
        try:
            body = self._api.get(
                self._path, query=query, accept=METADATA_LIST, timeout_s=_LIST_TIMEOUT_S
            )
        except RefusedError as error:
            if error.status == 410:
                raise _GoneError from error
            raise
        return msgspec.json.decode(body, type=PartialList)

    def _follow(self) -> float:
        began_s = time.monotonic()
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(_WATCH_S, 2 * _WATCH_S)),
        }
        with self._api.lines(
            self._path, query=query, accept=METADATA, connect_s=_CONNECT_S, idle_s=self._idle_s
        ) as lines:
            self._open = lines
            try:
                self._apply(lines)
            finally:
                self._open = None
        self._metrics.watch_ended(self.resource, WatchEnd.ENDED)
        if time.monotonic() - began_s < _SHORT_WATCH_S:
            return self._backoff.next_s()
        return 0.0

    def _apply(self, lines: Lines) -> None:
        if self._stopping.is_set():
            return
        self._heard_s, self._problem = time.monotonic(), ""
        for line in lines:
            event = msgspec.json.decode(line, type=WatchEvent)
            if event.type == "ERROR":
                _raise(msgspec.json.decode(event.object, type=Status))
            changed = msgspec.json.decode(event.object, type=PartialObject)
            if event.type == "DELETED":
                self._copy.remove(changed)
            elif event.type in ("ADDED", "MODIFIED"):
                self._copy.put(changed)
            self._version = changed.metadata.resource_version
            self._heard()

    def _heard(self) -> None:
        self._heard_s = time.monotonic()
        self._failures = 0
        self._backoff.reset()

    def _is_synced(self) -> None:
        self._heard()
        self._problem = ""
        if not self._synced.is_set():
            _log.info("listed", extra={"resource": self.resource, "objects": len(self._copy)})
            self._synced.set()

    def _not_installed(self) -> float:
        """The kind does not exist: nothing to know, and nothing to complain about."""
        self._version = ""
        self._copy.replace(())
        if self._problem != "not installed":
            _log.info("not installed; asked again from time to time: %s", self._path)
        self._is_synced()
        self._problem = "not installed"
        self._metrics.watch_ended(self.resource, WatchEnd.NOT_INSTALLED)
        return jittered_s(self._not_installed_s)

    def _failed(self, cause: WatchEnd, message: str) -> float:
        self._failures += 1
        if self._failures >= _FAILURES_BEFORE_LIST:
            # Perhaps it is this very place that cannot be followed.
            self._version = ""
        self._problem = message
        self._metrics.watch_ended(self.resource, cause)
        wait_s = self._backoff.next_s()
        extra = {"resource": self.resource, "cause": cause.value, "wait_s": round(wait_s, 1)}
        _log.warning("a watch is begun anew: %s", message, extra=extra)
        return wait_s


def _raise(status: Status) -> None:
    """The watch's own error: 410 when the place is lost."""
    if status.code == 410:
        raise _GoneError
    raise RefusedError(status.code, status.reason, status.message)
