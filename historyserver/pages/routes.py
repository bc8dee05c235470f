"""The routes of pages: our list at `/`, a session's facts, and Ray's UI under a session's prefix.

Ray's dashboard with `--proxy-server-url` asks us for `/`, `/static/...` and the icon first, and
shows its own only when we answer 404. It adds `Content-Type: application/json` to requests that
have none, which no browser sends on a GET: by that mark such requests get 404 (measured on Ray
2.55, `http_server_head.py`), so that the local dashboard shows the chosen session in its own UI.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import resources

import flask
from werkzeug.exceptions import NotFound

from historyserver.catalogue import PagingError, SessionEntry
from historyserver.compiled.meta import Meta
from historyserver.dashboard.files import CONTENT_SECURITY_POLICY, DashboardFile, DashboardFiles
from historyserver.http.conditions import accepts_gzip, is_fresh
from historyserver.http.current import selected
from historyserver.http.links import session_path, to_root
from historyserver.http.selection import (
    ENVIRON_NO_SLASH,
    LATEST,
    LIVE,
    SelectionSource,
    with_session,
)
from historyserver.pages.facts import facts_of, warnings_of
from historyserver.pages.listing import ListQuery, list_page
from historyserver.sessions import OpenSession
from historyserver.sessions.opening import SessionOpener

HTML = "text/html; charset=utf-8"
_NO_UI = (
    "Ray's dashboard files are not installed on this server; run "
    "`historyserver fetch-ui --from RAY_WHEEL --to DIR` and start it with --dashboard-dir=DIR. "
    "The API below this address works."
)
_ASSET_TYPES = {"css": "text/css; charset=utf-8", "svg": "image/svg+xml"}


@dataclass(frozen=True, kw_only=True)
class PageParts:
    """What the pages are made from."""

    opener: SessionOpener
    list_sessions: Callable[[], list[SessionEntry]]
    meta_of: Callable[[SessionEntry], Meta | None]
    files: DashboardFiles


def page_blueprint(parts: PageParts) -> flask.Blueprint:
    """Make the blueprint `pages`."""
    blueprint = flask.Blueprint("pages", __name__)

    @blueprint.get("/")
    def root() -> flask.Response:
        if _in_session():
            return _dashboard(parts)
        if proxied(flask.request):
            return _left_to_ray()
        return _list(parts)

    @blueprint.get("/about/<namespace>/<kind>/<name>/<session>/")
    def about(namespace: str, kind: str, name: str, session: str) -> flask.Response:
        del namespace, kind, name, session  # they are the selection, which access was asked about
        return _about(parts.opener.open(selected()))

    @blueprint.get("/assets/<name>")
    def asset(name: str) -> flask.Response:
        return _asset(name)

    @blueprint.get("/<path:path>")
    def file(path: str) -> flask.Response:
        if _in_session():
            found = parts.files.file(path, compressed=accepts_gzip(flask.request))
            if found is not None:
                return _file(found)
        elif proxied(flask.request):
            return _left_to_ray()
        raise NotFound

    return blueprint


def proxied(request: flask.Request) -> bool:
    """Whether Ray's dashboard passed this request on (see above)."""
    return request.method in ("GET", "HEAD") and request.mimetype == "application/json"


def _in_session() -> bool:
    chosen = selected()
    return chosen is not None and chosen.source is SelectionSource.PATH


def _list(parts: PageParts) -> flask.Response:
    def warning_of(entry: SessionEntry) -> str:
        meta = parts.meta_of(entry)
        return "has gaps" if meta is not None and warnings_of(meta) else ""

    entries = parts.list_sessions()
    query = ListQuery.of(flask.request.args)
    now_ms = int(time.time() * 1000)
    try:
        page = list_page(entries, query, now_ms=now_ms, warning_of=warning_of)
    except PagingError:
        query = replace(query, cursor="", before=0)  # an old link: its first page still helps
        page = list_page(entries, query, now_ms=now_ms, warning_of=warning_of)
    html = flask.render_template("sessions.html", page=page, root=to_root(flask.request.environ))
    return _html(html)


def _about(session: OpenSession) -> flask.Response:
    meta = session.compiled.meta
    html = flask.render_template(
        "about.html",
        cluster=meta.cluster,
        session=meta.session,
        facts=facts_of(meta),
        warnings=warnings_of(meta),
        link=session_path(session.ref),
        root=to_root(flask.request.environ),
    )
    return _html(html)


def _dashboard(parts: PageParts) -> flask.Response:
    """Ray's page for the session; `latest` and a missing slash go to the address that lasts."""
    chosen = selected()
    if chosen is None:
        raise NotFound
    environ = flask.request.environ
    entry = parts.opener.find(chosen)
    concrete = with_session(chosen, entry.ref.session)
    if environ.get(ENVIRON_NO_SLASH) or chosen.session in (LATEST, LIVE):
        response = flask.redirect(to_root(environ) + concrete.path, 302)
        response.headers["Cache-Control"] = "no-store"
        return flask.make_response(response)
    session = parts.opener.open(chosen)
    page = parts.files.index(
        session.compiled.meta.ray_version, compressed=accepts_gzip(flask.request)
    )
    if page is None:
        return _message("Ray's dashboard is not here", _NO_UI, status=503)
    return _file(page)


def _file(found: DashboardFile) -> flask.Response:
    fresh = is_fresh(found.etag, flask.request)
    response = flask.Response(b"" if fresh else found.body, status=304 if fresh else 200)
    for name, value in found.headers:
        response.headers[name] = value
    response.headers["ETag"] = found.etag
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    return response


def _asset(name: str) -> flask.Response:
    content_type = _ASSET_TYPES.get(name.rpartition(".")[2])
    file = resources.files("historyserver.pages") / "static" / name
    if content_type is None or "/" in name or "\\" in name or not file.is_file():
        raise NotFound
    response = flask.Response(file.read_bytes(), content_type=content_type)
    response.headers["Cache-Control"] = "public, max-age=300"
    return response


def _left_to_ray() -> flask.Response:
    response = flask.Response(
        "left to the local dashboard\n", status=404, content_type="text/plain; charset=utf-8"
    )
    response.headers["Cache-Control"] = "no-store"
    return response


def _message(title: str, text: str, *, status: int) -> flask.Response:
    html = flask.render_template(
        "message.html", title=title, text=text, root=to_root(flask.request.environ)
    )
    return _html(html, status=status)


def _html(html: str, *, status: int = 200) -> flask.Response:
    return flask.Response(html, status=status, content_type=HTML)
