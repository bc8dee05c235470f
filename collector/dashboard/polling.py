"""Keeps the dashboard's last good answers, on the local disk at once and in storage soon.

The dashboard dies about 1.5 s after Ray's SIGTERM, and in Kubernetes the sidecar gets its own
at the same moment, so everything is asked regularly; the last round only improves on it.
A round asks what is due, one request at a time, and at its end asks GCS whether the head node
still lives: if not, the round saw a dying cluster and is thrown away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from collector.dashboard.client import Answer, DashboardClient, DashboardCredentials
from collector.dashboard.endpoints import Endpoint, Seen, endpoints_for, is_kept_by_kuberay
from collector.dashboard.judging import (
    Rejection,
    decoded,
    digest,
    head_is_alive,
    learn,
    usable,
    worse,
)
from collector.dashboard.kept_answers import Snapshot, SnapshotFolder, verbatim
from collector.dashboard.metrics import DashboardMetrics
from collector.metrics import BackgroundTask, LoopErrors
from storage import endpoints
from storage.wire import SnapshotEnvelope, json_body

__all__ = ["DashboardCredentials", "Sink", "Snapshots", "ship_leftover_snapshots"]

Sink = Callable[[Snapshot], None]

KEPT = "kept"
"""Outcome of a poll whose answer was kept; the others are those of `Rejection`."""

ROUND_S = 1.0
DOWN_PAUSE_S = 1.0
DENIED_PAUSE_S = 30.0
SHIP_CHANGED_S = 60.0
"""A changed answer goes to storage at most this often; at the end at once."""
SHIP_VOLATILE_S = 300.0
"""The same for one where only clocks and load figures moved."""
_COST_SHARE = 20
"""The dashboard spends at most one part in so many of its time on one endpoint."""
_STAGED_BYTES = 32 * 1024 * 1024
_FINAL_TIMEOUT_S = 1.0
_PLAIN_TIMEOUT_S = 10.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Kept:
    """What is known of one endpoint's stored answer and of when to ask again."""

    due_s: float = 0.0
    answered: bool = False
    """Was asked before with success: the first time costs more than any other."""
    rejections: int = 0
    """So many answers in turn told less than the kept one."""
    good: bool = False
    settled: bool = False
    """Cannot change any more."""
    digest: str = ""
    shipped_digest: str = ""
    shipped_s: float = float("-inf")
    unshipped: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class _Staged:
    endpoint: Endpoint
    answer: Answer
    taken_ms: int


class Snapshots:
    """Polls one dashboard for one session at a time; lives in the collector's event loop.

    Args:
        dashboard_url: `http://localhost:8265`, or without the scheme.
        credentials: how to authenticate.
        directory: `<directory>/<session>/` holds the last answers.
        session_name: the session that the answers are of.
        node_id: the head node, whose death ends the polling.
        sink: gets what should be stored; `SessionShipping.put_snapshot`.
        additional: more endpoints that are wanted.
        metrics: what to count on.
        errors: where rounds that fail are counted.
        monotonic: the clock of intervals.
        now_ms: the wall clock that answers are stamped with.

    """

    def __init__(
        self,
        *,
        dashboard_url: str,
        credentials: DashboardCredentials,
        directory: Path,
        session_name: str,
        node_id: str,
        sink: Sink,
        additional: Sequence[str] = (),
        metrics: DashboardMetrics | None = None,
        errors: LoopErrors | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._client = DashboardClient(dashboard_url, credentials)
        self._directory, self._additional = directory, tuple(additional)
        self._metrics = metrics if metrics is not None else DashboardMetrics()
        self._errors = errors if errors is not None else LoopErrors()
        self._monotonic, self._now_ms = monotonic, now_ms
        self._busy = asyncio.Lock()
        self._ending = False
        self._fault: Rejection | None = None
        self.change_session(session_name=session_name, node_id=node_id, sink=sink)

    def change_session(self, *, session_name: str, node_id: str, sink: Sink) -> None:
        """From now on answers are of this session; what is known of the last one is forgotten."""
        self._folder = session_folder(self._directory / session_name, additional=self._additional)
        self._node_id, self._sink = node_id, sink
        self._kept: dict[str, _Kept] = {}
        self._seen = Seen()
        self._cluster_id = b""
        self._ending = False

    async def run(self) -> None:
        """Poll until cancelled. A dashboard that is down costs a quiet try per second."""
        try:
            while True:
                pause_s = ROUND_S
                try:
                    async with self._busy:
                        if not self._ending:
                            pause_s = await self._round()
                except Exception:  # polling is an extra: it must never end the collector
                    self._errors.count(BackgroundTask.SNAPSHOTS)
                    _log.exception("snapshot round failed")
                await asyncio.sleep(pause_s)
        finally:
            await self._client.close()

    async def final_poll(self, *, budget_s: float = 2.0) -> None:
        """Ask for everything once more, at once, and hand over all that storage does not have.

        For the moment of SIGTERM. All requests run side by side, most valuable first, with
        a second each; polling stops until the session changes.
        """
        self._ending = True
        try:
            async with asyncio.timeout(budget_s):
                await self._final_round()
        except TimeoutError:
            _log.warning("last poll not done in time", extra={"budget_s": budget_s})
        for kept in self._kept.values():
            self._ship(kept)

    async def close(self) -> None:
        """Close the connections, when `run` was never started or has ended."""
        await self._client.close()

    # -- a round -------------------------------------------------------------------------

    async def _round(self) -> float:
        folder = self._folder
        fault = await self._check_cluster()
        self._tell_change(fault)
        if fault is not None:
            self._metrics.polls.labels(fault.value).inc()
            return DENIED_PAUSE_S if fault is Rejection.DENIED else DOWN_PAUSE_S
        staged: list[_Staged] = []
        size_bytes = 0
        for endpoint in self._due():
            answer = await self._ask(endpoint, timeout_s=endpoint.timeout_s)
            if answer.fault is Rejection.UNREACHABLE and endpoint.timeout_s <= _PLAIN_TIMEOUT_S:
                break
            if answer.fault is None:
                staged.append(_Staged(endpoint, answer, self._now_ms()))
                size_bytes += len(answer.body)
            if size_bytes > _STAGED_BYTES:
                break
        if staged and self._folder is folder:
            await self._settle(staged, final=False)
        self._ship_due()
        return ROUND_S

    def _tell_change(self, fault: Rejection | None) -> None:
        """Say once that nothing can be asked, and why; a dashboard that is not up is no fault."""
        if fault is self._fault:
            return
        self._fault = fault
        if fault is None:
            _log.info("dashboard answers")
        else:
            level = logging.INFO if fault is Rejection.UNREACHABLE else logging.WARNING
            _log.log(level, "dashboard not usable", extra={"fault": fault.value})

    async def _check_cluster(self) -> Rejection | None:
        """Whether the dashboard is there and still the one of this session."""
        answer = await self._client.get(endpoints.CLUSTER_ID, timeout_s=_FINAL_TIMEOUT_S * 2)
        fault = answer.fault or usable(answer.status, answer.body)
        if fault is not None:
            return fault
        if not self._cluster_id:
            self._cluster_id = answer.body
            endpoint = Endpoint(endpoints.CLUSTER_ID, 0, once=True)
            await self._keep(_Staged(endpoint, answer, self._now_ms()), final=False)
        return None if answer.body == self._cluster_id else Rejection.OTHER_CLUSTER

    def _due(self) -> list[Endpoint]:
        now_s = self._monotonic()
        due = []
        for endpoint in endpoints_for(self._seen, self._additional):
            kept = self._kept.setdefault(endpoint.name, _Kept())
            if kept.due_s <= now_s and not kept.settled and not (endpoint.once and kept.good):
                due.append(endpoint)
        return due

    async def _ask(self, endpoint: Endpoint, *, timeout_s: float) -> Answer:
        begin_s = self._monotonic()
        answer = await self._client.get(endpoint.name, timeout_s=timeout_s)
        took_s = self._monotonic() - begin_s
        kept = self._kept.setdefault(endpoint.name, _Kept())
        kept.due_s = self._monotonic() + max(endpoint.every_s, took_s * _COST_SHARE)
        fault = answer.fault or usable(answer.status, answer.body, any_text=endpoint.any_text)
        if fault is None:
            if not kept.answered:  # it started a driver for Serve, Data or Train, for good
                kept.due_s = self._monotonic() + endpoint.every_s
            kept.answered = True
            return answer
        self._metrics.polls.labels(fault.value).inc()
        return Answer(answer.status, answer.content_type, b"", fault)

    async def _settle(self, staged: list[_Staged], *, final: bool) -> None:
        """Keep a round's answers if the head node outlived them."""
        answer = await self._client.get(endpoints.NODES, timeout_s=_FINAL_TIMEOUT_S)
        fault = answer.fault or usable(answer.status, answer.body)
        node_list = None if fault is not None else decoded(answer.body)
        alive = head_is_alive(node_list, self._node_id)
        for one in staged:
            # An answer of a dying cluster is better than none.
            if alive or not self._folder.has(one.endpoint.name):
                await self._keep(one, final=final)
                self._note_settled(one.endpoint.name)
            else:
                self._metrics.polls.labels(Rejection.DYING.value).inc()
        if alive:
            learn(self._seen, endpoints.NODES, node_list)

    def _note_settled(self, name: str) -> None:
        """Datasets of a job that has ended are kept once more, and then not asked again."""
        job_id = name.removeprefix(endpoints.DATASETS_PREFIX)
        if job_id != name and job_id in self._seen.ended_jobs:
            self._kept[name].settled = True

    async def _final_round(self) -> None:
        async with self._busy:
            wanted = endpoints_for(self._seen, self._additional)
            asked = [endpoint for endpoint in wanted if endpoint.final]
            answers = await asyncio.gather(
                *(self._ask(endpoint, timeout_s=_FINAL_TIMEOUT_S) for endpoint in asked)
            )
            now_ms = self._now_ms()
            staged = [
                _Staged(endpoint, answer, now_ms)
                for endpoint, answer in zip(asked, answers, strict=True)
                if answer.fault is None
            ]
            await self._settle(staged, final=True)

    # -- keeping -------------------------------------------------------------------------

    async def _keep(self, staged: _Staged, *, final: bool) -> None:
        kept = self._kept.setdefault(staged.endpoint.name, _Kept())
        outcome, value = await asyncio.to_thread(self._judge_and_write, staged, kept, final)
        self._metrics.polls.labels(KEPT if outcome is None else outcome.value).inc()
        kept.rejections = 0 if outcome is None else kept.rejections + 1
        if outcome is None:
            kept.good = True
            if not staged.endpoint.name.startswith(endpoints.NODE_PREFIX):
                learn(self._seen, staged.endpoint.name, value)

    def _judge_and_write(
        self, staged: _Staged, kept: _Kept, final: bool
    ) -> tuple[Rejection | None, object]:
        """Compare with what is on the disk and replace it. In a thread: bodies may be large."""
        endpoint, answer = staged.endpoint, staged.answer
        value = decoded(answer.body)
        last = self._folder.read(endpoint.name)
        if last is not None:
            if verbatim(last) == answer.body and kept.good:
                return None, value
            old = decoded(bytes(last.body))
        else:
            old = None
        fault = worse(endpoint, old, value, final=final, rejected_before=kept.rejections)
        if fault is not None:
            return fault, value
        envelope = SnapshotEnvelope(
            name=endpoint.name,
            taken_ms=staged.taken_ms,
            status=answer.status,
            content_type=answer.content_type,
            body=json_body(answer.body),
        )
        kept.unshipped = self._folder.write(envelope)
        kept.digest = digest(value, answer.body)
        return None, value

    def _ship_due(self) -> None:
        now_s = self._monotonic()
        for kept in self._kept.values():
            changed = kept.digest != kept.shipped_digest
            if now_s - kept.shipped_s >= (SHIP_CHANGED_S if changed else SHIP_VOLATILE_S):
                self._ship(kept)

    def _ship(self, kept: _Kept) -> None:
        if kept.unshipped is not None:
            self._sink(kept.unshipped)
            kept.unshipped = None
            kept.shipped_s, kept.shipped_digest = self._monotonic(), kept.digest


def session_folder(directory: Path, *, additional: Collection[str] = ()) -> SnapshotFolder:
    """The folder of a session's last answers."""
    return SnapshotFolder(
        directory, is_kept=partial(is_kept_by_kuberay, additional=frozenset(additional))
    )


def ship_leftover_snapshots(
    directory: Path, sink: Sink, *, additional: Collection[str] = ()
) -> int:
    """Hand over what a killed collector kept in `<directory>` (of one session) and did not see
    stored; returns how many.
    """
    leftovers = session_folder(directory, additional=additional).unshipped()
    for snapshot in leftovers:
        sink(snapshot)
    return len(leftovers)
