"""Puts the web app together: selection, access, API, pages. No rule of its own."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import flask
import msgspec
import zstandard

from historyserver.access import Policy
from historyserver.api.areas import AREAS
from historyserver.api.routing import ApiParts
from historyserver.catalogue import Catalogue, SessionEntry
from historyserver.compiled.meta import Meta
from historyserver.dashboard.files import DashboardFiles
from historyserver.http.answer_cache import BodyCache
from historyserver.http.current import selected
from historyserver.http.selection import SelectionPrefix
from historyserver.metrics import ServerMetrics
from historyserver.pages.routes import PageParts, page_blueprint
from historyserver.sessions import OpenSession, Sessions
from historyserver.sessions.opening import OpeningError, OpeningReason, SessionOpener
from historyserver.web.failures import answer_to
from historyserver.web.request_cycle import RequestCycle
from storage.backend import StorageError

log = logging.getLogger(__name__)

_DAMAGED = (sqlite3.DatabaseError, msgspec.MsgspecError, zstandard.ZstdError)
"""What reading a damaged compiled file ends with."""


class WebApp:
    """The WSGI app, and what must be closed with it."""

    def __init__(self, flask_app: flask.Flask, sessions: Sessions) -> None:
        self.flask_app = flask_app
        self._sessions = sessions
        self._wsgi = SelectionPrefix(flask_app.wsgi_app)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        return self._wsgi(environ, start_response)

    def close(self) -> None:
        """Stop the opening of sessions; what is being stored back is finished."""
        self._sessions.close()


@dataclass(frozen=True, kw_only=True)
class AppParts:
    """What an app is made from."""

    catalogue: Catalogue
    """Which sessions there are."""
    sessions: Sessions
    """Opens them."""
    files: DashboardFiles
    """Ray's built dashboard."""
    policy: Policy
    """Who may read."""
    answer_cache_bytes: int
    """Memory for ready answers."""
    open_timeout_s: float
    """How long a request waits for a session to be prepared."""
    max_waiting: int
    """How many requests may wait so at once; fewer than the server's threads."""
    metrics: ServerMetrics


def create_app(parts: AppParts) -> WebApp:
    """Make the app."""
    metrics, cache = parts.metrics, BodyCache(max_bytes=parts.answer_cache_bytes)
    metrics.watch_bytes("answer_cache", "Ready answers in memory.", lambda: cache.size_bytes)
    metrics.watch_skipped_keys(parts.catalogue.skips.counts)
    metrics.watch_list_age(parts.catalogue.age_s)
    opener = SessionOpener(
        catalogue=parts.catalogue,
        sessions=parts.sessions,
        patience_s=parts.open_timeout_s,
        max_waiting=parts.max_waiting,
    )
    api_parts = ApiParts(
        open_session=lambda: _current_session(opener),
        list_sessions=lambda: _newest_first(parts.catalogue),
        find=opener.find,
        why_not_ready=lambda: _why_not_ready(parts.catalogue),
        metrics_page=metrics.page,
    )
    app = _flask_app()
    RequestCycle(
        policy=parts.policy, cache=cache, metrics=metrics, open_session=api_parts.open_session
    ).install(app)
    app.register_error_handler(Exception, lambda error: answer_to(_healed(error, parts.sessions)))
    for area in AREAS:
        app.register_blueprint(area.blueprint(api_parts))
    app.register_blueprint(page_blueprint(_page_parts(parts, opener)))
    return WebApp(app, parts.sessions)


def _flask_app() -> flask.Flask:
    app = flask.Flask("historyserver", static_folder=None, template_folder="pages/templates")
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.url_map.redirect_defaults = False
    return app


def _current_session(opener: SessionOpener) -> OpenSession:
    """The session of the current request, opened once per request."""
    session: OpenSession | None = flask.g.get("open_session")
    if session is None:
        session = flask.g.open_session = opener.open(selected())
    return session


def _healed(error: Exception, sessions: Sessions) -> Exception:
    """A compiled file that fails in a query is made anew, once; the reader comes back for it."""
    session: OpenSession | None = flask.g.get("open_session")
    if session is None or not isinstance(error, _DAMAGED) or not sessions.discard(session):
        return error
    log.error("a query met a damaged file", exc_info=error)
    return OpeningError(
        OpeningReason.PREPARING,
        f"the prepared session {session.ref.session} was damaged and is made anew; "
        "try again in a few seconds",
    )


def _page_parts(parts: AppParts, opener: SessionOpener) -> PageParts:
    def meta_of(entry: SessionEntry) -> Meta | None:
        ready = parts.sessions.peek(entry.ref)
        return None if ready is None else ready.compiled.meta

    return PageParts(
        opener=opener,
        list_sessions=parts.catalogue.sessions,
        meta_of=meta_of,
        files=parts.files,
    )


def _newest_first(catalogue: Catalogue) -> list[SessionEntry]:
    return sorted(
        catalogue.sessions(), key=lambda entry: (entry.start_ms, entry.ref.session), reverse=True
    )


def _why_not_ready(catalogue: Catalogue) -> str:
    """Empty while there is a list to show, also an old one (docs/operations.md says why)."""
    began_s = time.monotonic()
    try:
        catalogue.sessions()
    except StorageError as error:
        return f"the storage does not answer: {error} (after {time.monotonic() - began_s:.1f} s)"
    return ""
