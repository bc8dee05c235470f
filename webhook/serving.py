"""Runs the app in gunicorn: one worker process with threads, TLS, and an end without losses.

One process, since the look-ups' copy of the cluster and the metrics are its own; more replicas
serve more. All that has threads is made in the worker, after the fork.
"""

from __future__ import annotations

import gc
import logging
import os
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flask
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

from webhook.certificate import ServingCertificate
from webhook.health import HealthServer, Readiness
from webhook.settings import Listen, Settings

_log = logging.getLogger("webhook.serving")


@dataclass(frozen=True, slots=True)
class Parts:
    """What serves, made in the worker."""

    app: flask.Flask
    certificate: ServingCertificate
    readiness: Readiness
    health: HealthServer
    start: Callable[[], None]
    """Starts what has threads; called once, when all is made."""
    stop: Callable[[], None]
    """Ends what `start` began; called when the last review is answered."""


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn is not typed
    """gunicorn, set up by our settings alone: it reads no file, flag or environment of its own."""

    def __init__(self, settings: Settings, make: Callable[[Settings], Parts]) -> None:
        self._settings = settings
        self._make = make
        self._parts: Parts | None = None
        super().__init__()

    @property
    def drain_s(self) -> float:
        """So long connections are taken after SIGTERM; for the worker."""
        return self._settings.listen.drain_s

    def begin_stop(self) -> None:
        """Say that the end has begun; called in the worker's signal handler."""
        if self._parts is not None:
            self._parts.readiness.stop()

    def end(self) -> None:
        """End the parts; called in the worker, when it has answered all."""
        if self._parts is not None:
            self._parts.stop()
            self._parts.health.close()

    def load_config(self) -> None:
        """Set gunicorn's options."""
        for name, value in _options(self._settings.listen).items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)
        self.cfg.set("ssl_context", self._context)

    def load(self) -> flask.Flask:
        """Make all parts; called in the worker."""
        parts = self._make(self._settings)
        self._parts = parts
        parts.certificate.start()
        parts.health.start()
        parts.start()
        _log.info("probes listening", extra={"port": parts.health.port})
        _calm_garbage_collector()
        return parts.app

    def _context(self, config: Any, default: Any) -> ssl.SSLContext:
        del config, default
        if self._parts is None:
            raise ssl.SSLError("not started yet")
        return self._parts.certificate.context()


def _options(listen: Listen) -> dict[str, Any]:
    address = f"[{listen.address}]" if ":" in listen.address else listen.address
    return {
        "bind": [f"{address}:{listen.port}"],
        "workers": 1,
        "worker_class": "webhook.connections.Worker",
        "worker_connections": 2048,
        "threads": listen.threads,
        "keepalive": listen.keepalive_s,
        "graceful_timeout": round(listen.drain_s + listen.stop_timeout_s),
        "timeout": 60,
        # Only says that there is TLS: the context comes from the certificate that is watched,
        # and its files may be written later than this program starts.
        "certfile": os.devnull,
        "accesslog": None,
        "errorlog": "-",
        "logger_class": "webhook.serving.Logs",
        "control_socket_disable": True,
        "when_ready": _ready,
        "worker_exit": _worker_exit,
        "proc_name": "webhook",
    }


def _calm_garbage_collector() -> None:
    """Collect less often: a review makes thousands of objects, and none that refer in circles.

    What is loaded by now stays, so it is not looked through again. A fifth of a review's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


class Logs:
    """gunicorn's logger interface, on top of our own log lines."""

    def __init__(self, cfg: Any) -> None:
        del cfg
        self.error_log = logging.getLogger("webhook.gunicorn")
        self.access_log = self.error_log
        self.loglevel = self.error_log.getEffectiveLevel()
        self.critical = self.error_log.critical
        self.error = self.error_log.error
        self.warning = self.error_log.warning
        self.info = self.error_log.debug
        self.debug = self.error_log.debug
        self.log = self.error_log.log

    def exception(self, message: object, *args: object) -> None:
        """Log an error with its trace; a client that stands still is none of ours."""
        if isinstance(sys.exc_info()[1], BlockingIOError):
            self.info("closed a connection that stood still")
        else:
            self.error_log.exception(message, *args)

    def access(self, *args: Any) -> None:
        """Not used: the admission writes one line per review itself."""

    def reopen_files(self) -> None:
        """Nothing to open again: stdout only."""

    def close_on_exec(self) -> None:
        """Nothing to close."""


def _ready(server: Any) -> None:
    addresses = [str(listener) for listener in server.LISTENERS]
    _log.info("listening", extra={"address": addresses[0] if addresses else ""})


def _worker_exit(server: Any, worker: Any) -> None:
    del server
    app = getattr(worker, "app", None)
    if isinstance(app, Server):
        app.end()
