"""A thread that does one thing again and again until it is stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from webhook.kube.backoff import jittered_s

_log = logging.getLogger("webhook.kube.periodic")


class Periodic:
    """Runs `once` every `every_s` at most, at half of it at least: replicas spread by chance."""

    def __init__(self, name: str, *, once: Callable[[], None], every_s: float) -> None:
        self._once = once
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin. Called after gunicorn's fork, since threads do not survive one."""
        self._thread.start()

    def stop(self) -> None:
        """End after the round that runs."""
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the end."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._once()
            except Exception:
                _log.exception("a round of %s failed", self._thread.name)
            self._stopping.wait(jittered_s(self._every_s))
