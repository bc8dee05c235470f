"""The history server's settings: one table of options, one frozen object made of it at start."""

from __future__ import annotations

import ipaddress
import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.program.logs import LOG_OPTIONS
from storage.program.option_values import boolean, duration_s, integer, port, size_bytes, text
from storage.program.options import Option, OptionError, load
from storage.settings import STORAGE_OPTIONS

log = logging.getLogger(__name__)

SERVER_OPTIONS: tuple[Option, ...] = (
    *STORAGE_OPTIONS,
    Option(
        "listen-address",
        default="127.0.0.1",
        help="Address to listen on. One that other machines can reach needs --auth.",
        parse=text,
        env=("HISTORY_SERVER_LISTEN_ADDRESS",),
    ),
    Option(
        "port",
        default="8080",
        help="Port to listen on; 0 takes a free one and logs it.",
        parse=port,
        env=("HISTORY_SERVER_PORT",),
    ),
    Option(
        "auth",
        default=None,
        help="Who may read. `none` lets everybody who reaches the port read every session; it "
        "must be said when the address is not a loopback one.",
        parse=text,
        choices=("none",),
        env=("HISTORY_SERVER_AUTH",),
    ),
    Option(
        "dashboard-dir",
        default="/dashboard",
        help="Folder with Ray's built dashboard (see `historyserver fetch-ui`). When it has "
        "none, that of an installed ray package is used.",
        parse=text,
        env=("HISTORY_SERVER_DASHBOARD_DIR",),
    ),
    Option(
        "cache-dir",
        default=None,
        help="Folder for compiled sessions; everything in it can be made anew. Default: "
        "ray-history-server in the system's folder for temporary files.",
        parse=text,
        env=("HISTORY_SERVER_CACHE_DIR",),
    ),
    Option(
        "cache-size",
        default="10Gi",
        help="How much of that folder compiled sessions may take; the least recently used go.",
        parse=size_bytes,
        env=("HISTORY_SERVER_CACHE_SIZE",),
    ),
    Option(
        "answer-cache-size",
        default="32Mi",
        help="Memory for ready answers, per worker process.",
        parse=size_bytes,
        env=("HISTORY_SERVER_ANSWER_CACHE_SIZE",),
    ),
    Option(
        "compile-workers",
        default="2",
        help="Processes that compile one session.",
        parse=integer(1, 64),
        env=("HISTORY_SERVER_COMPILE_WORKERS",),
    ),
    Option(
        "compile-timeout",
        default="15m",
        help="How long compiling one session may take; then it is given up, and readers are "
        "told so.",
        parse=duration_s,
        env=("HISTORY_SERVER_COMPILE_TIMEOUT",),
    ),
    Option(
        "open-timeout",
        default="20s",
        help="How long a request waits for a session to be prepared before it gets 503 and "
        "may ask again. Ray's proxy gives up after 30s.",
        parse=duration_s,
        env=("HISTORY_SERVER_OPEN_TIMEOUT",),
    ),
    Option(
        "workers",
        default="1",
        help="Server processes. With more than one, each /metrics shows one of them.",
        parse=integer(1, 64),
        env=("HISTORY_SERVER_WORKERS",),
    ),
    Option(
        "threads",
        default="32",
        help="Threads per server process; at most three quarters of them wait for a session "
        "to be prepared.",
        parse=integer(1, 512),
        env=("HISTORY_SERVER_THREADS",),
    ),
    Option(
        "stop-timeout",
        default="10s",
        help="How long running requests may take after SIGTERM.",
        parse=duration_s,
        env=("HISTORY_SERVER_STOP_TIMEOUT",),
    ),
    *LOG_OPTIONS,
)
"""All that this server reads."""


def _ignored(name: str, *, aliases: tuple[str, ...] = (), flag: bool = False) -> Option:
    return Option(
        name,
        default=None,
        help="A setting of KubeRay's server; accepted and without effect here.",
        parse=boolean if flag else str,
        aliases=aliases,
    )


KUBERAY_OPTIONS: tuple[Option, ...] = (
    _ignored("storage-backend-config-path", aliases=("runtime-class-config-path",)),
    _ignored("kubeconfigs"),
    _ignored("use-kubernetes-proxy", flag=True),
    _ignored("use-auth-token-mode", flag=True),
    _ignored("enable-live-clusters", flag=True),
    _ignored("kube-api-qps"),
    _ignored("kube-api-burst"),
    _ignored("session-process-timeout"),
    _ignored("session-cache-size"),
    _ignored("session-cache-max-memory"),
    _ignored("session-cache-ttl"),
)
"""KubeRay's flags without a meaning here: a manifest made for it starts this server too."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the server runs with; defaults are in the table above.

    `storage` holds the values for `storage.settings`.
    """

    storage: Mapping[str, Any]
    listen_address: str
    port: int
    auth: str | None
    dashboard_dir: Path
    cache_dir: Path
    cache_size_bytes: int
    answer_cache_bytes: int
    compile_workers: int
    compile_timeout_s: float
    open_timeout_s: float
    workers: int
    threads: int
    stop_timeout_s: float
    log_level: str
    log_format: str


def read_settings(argv: Sequence[str], env: Mapping[str, str]) -> Settings:
    """Read flags and environment. Raises `OptionError`."""
    values = load((*SERVER_OPTIONS, *KUBERAY_OPTIONS), argv=argv, env=env)
    for option in KUBERAY_OPTIONS:
        if values[option.name.replace("-", "_")] is not None:
            log.warning("a setting has no effect in this server", extra={"setting": option.name})
    settings = Settings(
        storage=values,
        listen_address=values["listen_address"],
        port=values["port"],
        auth=values["auth"],
        dashboard_dir=Path(values["dashboard_dir"]),
        cache_dir=Path(values["cache_dir"] or default_cache_dir()),
        cache_size_bytes=values["cache_size"],
        answer_cache_bytes=values["answer_cache_size"],
        compile_workers=values["compile_workers"],
        compile_timeout_s=values["compile_timeout"],
        open_timeout_s=values["open_timeout"],
        workers=values["workers"],
        threads=values["threads"],
        stop_timeout_s=values["stop_timeout"],
        log_level=values["log_level"],
        log_format=values["log_format"],
    )
    check_address(settings.listen_address, auth=settings.auth)
    return settings


def default_cache_dir() -> Path:
    """Where compiled sessions go when nobody says."""
    return Path(tempfile.gettempdir()) / "ray-history-server"


def check_address(address: str, *, auth: str | None) -> None:
    """Refuse to show all sessions to a network unless that was said. Raises `OptionError`.

    Logs and tracebacks carry secrets, and no released history server asks who is reading; a
    server that is open to a network by default is the fault to avoid.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError as error:
        if address == "localhost":
            return
        raise OptionError(f"--listen-address={address}: not an IP address or localhost") from error
    if not parsed.is_loopback and auth is None:
        raise OptionError(
            f"--listen-address={address}: others can reach it and would read every session; "
            "give --auth=none if that is meant, or listen on 127.0.0.1"
        )
