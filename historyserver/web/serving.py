"""Runs the app in gunicorn: one master, few workers with threads, a graceful stop.

The app is made in each worker after the fork, since it has threads and database connections;
the modules are imported before it, so that workers share their memory.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

from historyserver.access import OpenPolicy
from historyserver.catalogue import Catalogue
from historyserver.dashboard.files import DashboardFiles
from historyserver.metrics import ServerMetrics
from historyserver.sessions import open_sessions
from historyserver.settings import Settings
from historyserver.web.app import AppParts, WebApp, create_app
from storage.backend import Backend

log = logging.getLogger(__name__)

KEEP_ALIVE_S = 75
"""Longer than the 60 s after which common proxies close an idle connection."""


_NEWER_OPTIONS = frozenset({"control_socket_disable"})
"""What older versions of gunicorn lack, and do right without: they open no control socket."""


def make_app(settings: Settings, backend: Backend) -> WebApp:
    """Make the app as the settings want it."""
    metrics = ServerMetrics()
    metrics.watch_bytes(
        "compiled_cache", "Compiled sessions on disk.", lambda: folder_bytes(settings.cache_dir)
    )
    return create_app(
        AppParts(
            catalogue=Catalogue(backend, watch=metrics),
            sessions=open_sessions(settings, backend, metrics),
            files=DashboardFiles(settings.dashboard_dir),
            policy=OpenPolicy(),
            answer_cache_bytes=settings.answer_cache_bytes,
            open_timeout_s=settings.open_timeout_s,
            max_waiting=max(1, settings.threads * 3 // 4),
            metrics=metrics,
        )
    )


def folder_bytes(folder: Path) -> int:
    """How much the files of a folder take; those that vanish meanwhile count nothing."""
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:
            continue
    return total


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn is not typed
    """gunicorn, set up by our settings alone: it reads no file, flag or environment of its own."""

    def __init__(self, settings: Settings, make: Callable[[], WebApp]) -> None:
        self._settings = settings
        self._make = make
        super().__init__()

    def load_config(self) -> None:
        """Set gunicorn's options."""
        settings = self._settings
        address = (
            f"[{settings.listen_address}]"
            if ":" in settings.listen_address
            else (settings.listen_address)
        )
        options: dict[str, Any] = {
            "bind": [f"{address}:{settings.port}"],
            "workers": settings.workers,
            "worker_class": "historyserver.web.connections.Worker",
            "threads": settings.threads,
            "graceful_timeout": max(1, round(settings.stop_timeout_s)),
            "timeout": 120,
            "keepalive": KEEP_ALIVE_S,
            "limit_request_line": 8190,
            "limit_request_field_size": 32 * 1024,  # cookies of a sign-in proxy are large
            "accesslog": None,
            "errorlog": "-",
            "logger_class": "historyserver.web.serving.Logs",
            "control_socket_disable": True,
            "when_ready": _ready,
            "worker_exit": _worker_exit,
            "proc_name": "historyserver",
        }
        for name, value in options.items():
            if name in self.cfg.settings or name not in _NEWER_OPTIONS:
                self.cfg.set(name, value)  # raises for one that this gunicorn does not know

    def load(self) -> WebApp:
        """Make the app; called in each worker."""
        return self._make()


class Logs:
    """gunicorn's logger interface, on top of our own log lines."""

    def __init__(self, cfg: Any) -> None:
        del cfg
        self.error_log = logging.getLogger("historyserver.gunicorn")
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
        """Not used: the app writes one line per request itself."""

    def reopen_files(self) -> None:
        """Nothing to open again: stdout only."""

    def close_on_exec(self) -> None:
        """Nothing to close."""


def _ready(server: Any) -> None:
    addresses = [str(listener) for listener in server.LISTENERS]
    log.info("listening", extra={"address": addresses[0] if addresses else ""})


def _worker_exit(server: Any, worker: Any) -> None:
    del server
    app = getattr(worker, "wsgi", None)
    if isinstance(app, WebApp):
        app.close()
