"""Kubernetes Events on RayClusters: `kubectl describe raycluster` says what became of its pods.

Told by a thread of its own: a review only leaves a note. The name of an Event comes from what
it says, so that replicas share it, and what repeats is counted in its series. Only the rights
to create and patch Events are needed: an empty patch reads one.
https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
"""

from __future__ import annotations

import hashlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from webhook.facts import ClusterFacts
from webhook.kube.client import Api, KubeError, RefusedError
from webhook.kube.event_queue import Due, EventKey, EventQueue
from webhook.kube.metrics import EventOutcome, KubeMetrics
from webhook.kube.wire import StoredEvent

_log = logging.getLogger("webhook.kube.events")

CONTROLLER = "rayhistory.io/webhook"
ACTION = "AddCollector"

_MOST = 4096
_REPEAT_S = 300.0
_MOST_PER_S = 10.0
_BURST = 50
_TIMEOUT_S = 5.0
_AGAIN_S = 10.0
_ATTEMPTS = 5
_LONGEST_NOTE_BYTES = 1024
_LONGEST_NAME_PART = 200


class KubeEvents:
    """Takes notes from any thread, tells them from its own."""

    def __init__(
        self,
        *,
        api: Api,
        metrics: KubeMetrics,
        queue: EventQueue | None = None,
        again_s: float | None = None,
        instance: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`instance` names this replica; the pod's name unless given."""
        self._api = api
        self._metrics = metrics
        if queue is None:  # An empty one is false.
            queue = EventQueue(most=_MOST, repeat_s=_REPEAT_S, most_per_s=_MOST_PER_S, burst=_BURST)
        self._queue = queue
        self._again_s = again_s or _AGAIN_S
        self._instance = (instance or socket.gethostname())[:128]
        self._clock = clock
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin. Called after gunicorn's fork, since threads do not survive one."""
        self._thread.start()

    def stop(self) -> None:
        """Tell what is due, then end; the rest is counted as dropped."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def join(self, timeout_s: float) -> None:
        """Wait for the end."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def record(self, cluster: ClusterFacts, reason: str, message: str, kind: str) -> None:
        """Note an Event on the RayCluster; `kind` is `Normal` or `Warning`. Returns at once."""
        key = EventKey(cluster.namespace, cluster.name, cluster.uid, reason, kind)
        with self._changed:
            is_kept = self._queue.put(key, cluster, message, self._clock())
            self._changed.notify()
        if not is_kept:
            self._metrics.event(EventOutcome.DROPPED_FULL)

    def _run(self) -> None:
        while (due := self._next()) is not None:
            try:
                self._tell(due)
            except Exception:
                _log.exception("an Event failed")
                self._metrics.event(EventOutcome.DROPPED_REFUSED, due.count)
        with self._changed:
            self._metrics.event(EventOutcome.DROPPED_STOPPED, self._queue.unsent())

    def _next(self) -> Due | None:
        """Wait for the next Event; None at the end."""
        with self._changed:
            while True:
                now_s = self._clock()
                due = self._queue.take(now_s)
                if due is not None or self._stopping:
                    return due
                wait_s = self._queue.next_s(now_s)
                self._changed.wait(None if wait_s > threading.TIMEOUT_MAX else wait_s)

    def _tell(self, due: Due) -> None:
        try:
            self._metrics.event(self._told(due), due.count)
        except RefusedError as error:
            if error.status in (429, 500, 503, 504):
                self._later(due, error)
            else:
                self._dropped(due, error, EventOutcome.DROPPED_REFUSED)
        except (KubeError, msgspec.MsgspecError) as error:
            self._later(due, error)

    def _told(self, due: Due) -> EventOutcome:
        event = event_of(due, instance=self._instance, now=datetime.now(UTC))
        path = f"/apis/events.k8s.io/v1/namespaces/{quote(due.key.namespace, safe='')}/events"
        try:
            self._api.post(path, event, timeout_s=_TIMEOUT_S)
        except RefusedError as error:
            if error.status != 409:
                raise
        else:
            return EventOutcome.RECORDED
        try:
            self._add(f"{path}/{event['metadata']['name']}", due.count)
        except RefusedError as error:
            if error.status in (404, 409):
                raise _OvertakenError(str(error)) from error
            raise
        return EventOutcome.REPEATED

    def _add(self, path: str, count: int) -> None:
        """Raise the count of an Event that is there, whoever made it."""
        stored = msgspec.json.decode(
            self._api.patch(path, {}, timeout_s=_TIMEOUT_S), type=StoredEvent
        )
        before = stored.series.count if stored.series is not None else 1
        series = {"count": before + count, "lastObservedTime": _micro(datetime.now(UTC))}
        # The version makes the API server refuse when another replica was faster (409).
        version = {"resourceVersion": stored.metadata.resource_version}
        self._api.patch(path, {"metadata": version, "series": series}, timeout_s=_TIMEOUT_S)

    def _later(self, due: Due, error: Exception) -> None:
        if due.attempts + 1 >= _ATTEMPTS:
            self._dropped(due, error, EventOutcome.DROPPED_UNREACHABLE)
            return
        with self._changed:
            self._queue.put_back(due, self._clock(), after_s=self._again_s)

    def _dropped(self, due: Due, error: Exception, outcome: EventOutcome) -> None:
        self._metrics.event(outcome, due.count)
        extra = {"namespace": due.key.namespace, "cluster": due.key.cluster}
        _log.warning("an Event was dropped: %s", error, extra=extra)


class _OvertakenError(KubeError):
    """Another replica changed the Event just now, or its hour was over."""


def event_of(due: Due, *, instance: str, now: datetime) -> dict[str, Any]:
    """The Event as the API wants it."""
    regarding = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "namespace": due.key.namespace,
        "name": due.key.cluster,
    }
    if due.key.uid:
        regarding["uid"] = due.key.uid
    event: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": _name(due.key), "namespace": due.key.namespace},
        "eventTime": _micro(now),
        "type": due.key.kind,
        "reason": camel(due.key.reason),
        "action": ACTION,
        "note": _cut(due.message),
        "regarding": regarding,
        "reportingController": CONTROLLER,
        "reportingInstance": instance,
    }
    if due.count > 1:
        event["series"] = {"count": due.count, "lastObservedTime": _micro(now)}
    return event


def camel(reason: str) -> str:
    """`lookup_failed` is `LookupFailed`, as Kubernetes spells reasons."""
    return "".join(part.capitalize() for part in reason.split("_"))


def _name(key: EventKey) -> str:
    said = "\0".join((key.uid, key.reason, key.kind))
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    return f"{key.cluster[:_LONGEST_NAME_PART]}.{digest}"


def _micro(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _cut(note: str) -> str:
    return note.encode()[:_LONGEST_NOTE_BYTES].decode(errors="ignore")
