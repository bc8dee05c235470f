"""One session on its way to storage: the thread that ships while Ray runs, and the end.

The lifecycle makes one `SessionShipping` per (session, node), starts it, and finishes it;
a session that an earlier process left on the disk is finished without being started.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from collector.dashboard.kept_answers import Snapshot
from collector.metrics import BackgroundTask
from collector.shipping.node_shipping import NodeShipping
from collector.shipping.parts import ShippingParts

MOST_UNREAD_FOR_FRAMES_BYTES = 64 * 1024 * 1024
"""At the end, when more log bytes than this are not stored yet, they are not sent as frames
first and as whole logs again, but as whole logs at once."""

_ROUNDS = 3
_SLOW_SCAN_SHARE = 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FinishReport:
    """What `SessionShipping.finish` achieved."""

    complete: bool
    """Everything is in storage in its final form, and the manifest says so."""
    manifest_stored: bool
    missing_logs: int
    """Logs without a plain object; what live segments have of them can be read all the same."""
    missing_log_bytes: int
    """Log bytes that storage does not have in any form; gaps in the manifest."""
    unshipped_events: int
    """Events that are on this disk only; `dropped` in the manifest until they are shipped."""


class SessionShipping:
    """Ships one session of one node; see `collector.shipping.node_shipping` for how.

    Args:
        parts: which session and node, and with what.

    """

    def __init__(self, parts: ShippingParts) -> None:
        self._parts = parts
        self._settings, self._monotonic = parts.settings, parts.monotonic
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._shipping = NodeShipping(parts)
        self._jobs, self._manifests = self._shipping.jobs, self._shipping.node.manifests
        self._tails = self._shipping.node.tails

    def start(self) -> None:
        """Ship in a thread of its own until `finish`; goes on where an earlier process stopped."""
        name = f"shipping-{self._parts.session.session_name[-12:]}"
        self._stop.clear()
        self._jobs.resume()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def press(self) -> None:
        """Ship what there is now: the local disk is filling, or something ended."""
        self._shipping.press()

    def quiet_s(self) -> float:
        """How long no log file has appeared, grown or vanished, as far as the last scan saw."""
        return self._tails.quiet_s()

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Queue an answer of the dashboard; any thread, returns at once."""
        self._shipping.put_snapshot(snapshot)

    def _run(self) -> None:
        while not self._stop.is_set():
            begin_s = self._monotonic()
            try:
                self._shipping.step()
            except Exception:  # shipping must go on: the next look may find it in order
                self._count_failure()
            # Many thousands of logs make a look slow; it may take a twentieth of one core.
            took_s = self._monotonic() - begin_s
            pause_s = max(self._settings.scan_interval_s, took_s * _SLOW_SCAN_SHARE)
            until_s = self._monotonic() + pause_s
            while not self._stop.is_set() and (rest_s := until_s - self._monotonic()) > 0:
                if self._jobs.wake.wait(min(rest_s, 1.0)) and not self._stop.is_set():
                    self._step_without_scan()

    def _step_without_scan(self) -> None:
        try:
            self._shipping.step(scan=False)
        except Exception:
            self._count_failure()
            self._stop.wait(self._settings.scan_interval_s)

    def _count_failure(self) -> None:
        self._parts.errors.count(BackgroundTask.SHIPPING)
        _log.exception("shipping step failed")

    # -- the end -------------------------------------------------------------------------

    def finish(self, *, deadline_s: float, ended: bool = True) -> FinishReport:
        """Bring everything into its final form; blocks, so call it in a thread.

        The order: manifest, snapshots and the newest bytes of all logs and events in one
        live segment; then event files; then whole logs, small ones first. May be called
        again, when logs grew after the end.

        Args:
            deadline_s: when to stop, on the monotonic clock. What is not in storage by then
                is told in the last manifest, which may take `manifest_reserve_s` more.
            ended: nothing more will come: say so in the manifest.

        """
        self._stop.set()
        self._jobs.wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._jobs.hurry(deadline_s)
        self._secure(deadline_s)
        self._finish_logs(deadline_s)
        self._jobs.cancel()
        stored = self._store_last_manifest(deadline_s + self._settings.manifest_reserve_s, ended)
        report = self._report(manifest_stored=stored)
        self._shipping.close()
        return report

    def _secure(self, deadline_s: float) -> None:
        """Get the newest bytes into live segments; events go to cold files meanwhile."""
        shipping = self._shipping
        shipping.step(final=True)
        while self._monotonic() < deadline_s and not shipping.secured:
            if self._tails.unread_bytes() > MOST_UNREAD_FOR_FRAMES_BYTES:
                return
            self._wait(deadline_s)
            shipping.step(scan=False, final=True)

    def _finish_logs(self, deadline_s: float) -> None:
        shipping = self._shipping
        if not self._parts.collect_logs:
            return
        logs = shipping.final_logs
        logs.begin()
        for _ in range(_ROUNDS):
            while self._monotonic() < deadline_s:
                shipping.step(scan=False, final=True, hot=False)
                logs.ship_all()
                if self._jobs.idle:
                    break
                self._wait(deadline_s)
            shipping.scan(final=True)
            if not logs.missing:
                return

    def _store_last_manifest(self, until_s: float, ended: bool) -> bool:
        shipping = self._shipping
        begun = False
        while True:
            shipping.step(scan=False, final=True, hot=False, upload=False)
            if begun and self._manifests.current and self._jobs.idle:
                return True
            if not begun and not self._manifests.busy:
                shipping.store_last_manifest(ended=ended)
                begun = True
            if self._monotonic() >= until_s:
                self._jobs.cancel()
                return begun and self._manifests.current
            self._wait(until_s)

    def _wait(self, until_s: float) -> None:
        self._jobs.wake.wait(max(0.0, min(0.2, until_s - self._monotonic())))

    def _report(self, *, manifest_stored: bool) -> FinishReport:
        shipping = self._shipping
        missing = shipping.final_logs.missing if self._parts.collect_logs else []
        missing_bytes = sum(
            max(0, log.size_bytes - shipping.node.book.log(log.incarnation).stored_bytes)
            for log in self._tails.logs()
            if not log.rewritten
        )
        unshipped = shipping.events.unshipped_events()
        complete = manifest_stored and not (missing or unshipped or shipping.events.unshipped())
        return FinishReport(complete, manifest_stored, len(missing), missing_bytes, unshipped)
